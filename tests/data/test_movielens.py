"""MovieLens-1M: published ratings, one edge per first digit of the zip code."""

from pathlib import Path

import pytest
import torch

from alphaedge import Dataset
from alphaedge.data import movielens
from alphaedge.data.movielens import GENRES

from .archives import pack, real

# 1 and 3 live in region 9, one of them with a long zip code; 2's code is short. User 6040 is the last.
USERS = ["1::F::1::10::98107-1467", "2::M::56::16::072", "3::M::25::0::91234", "6040::F::50::20::48067"]
MOVIES = [
    "1::Toy Story (1995)::Animation|Children's|Comedy",
    "2::Misérables, Les (1998)::Drama",
    '3::"Weird" Film, A (2001 remake) (1999)::Film-Noir|Sci-Fi',
    "3952::Seven Samurai (The Magnificent Seven) (Shichinin no samurai) (1954)::Action|Drama",
]
RATINGS = [
    "1::2::5::978300760",
    "1::1::3::978300760",  # the same second: the order of the file counts
    "2::3952::4::978300000",
    "3::3::1::978299999",
    "1::3952::4::978300700",
    "6040::1::2::956703932",
]


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, ratings: list[str] = RATINGS) -> Dataset:
    files = {"users.dat": USERS, "movies.dat": MOVIES, "ratings.dat": ratings}
    members = {f"ml-1m/{name}": "".join(f"{line}\n" for line in lines) for name, lines in files.items()}
    pack(folder, "ml-1m", {"ml-1m/": b""} | {name: text.encode("latin-1") for name, text in members.items()})
    monkeypatch.setenv("ALPHAEDGE_DATA", str(folder))
    return movielens.load()


def test_edges_are_first_digits_of_zip_codes_in_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    assert (data.name, data.task, len(data.streams)) == ("movielens", "classify", 10)
    assert [len(s) for s in data.streams] == [1, 0, 0, 0, 1, 0, 0, 0, 0, 4]
    nine = data.streams[9]
    assert nine.times.tolist() == [978299999, 978300700, 978300760, 978300760]
    assert nine.inputs["user"].tolist() == [2, 0, 0, 0]
    assert nine.inputs["movie"].tolist() == [2, 3951, 1, 0]
    assert data.streams[0].inputs["user"].tolist() == [1]
    assert data.streams[4].inputs["user"].tolist() == [6039]


def test_ratings_of_four_and_five_are_positives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = [f"1::1::{stars}::{stars}" for stars in range(1, 6)]
    assert write(tmp_path, monkeypatch, ratings).streams[9].labels.tolist() == [0, 0, 0, 1, 1]


def test_inputs_describe_users_and_films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nine = write(tmp_path, monkeypatch).streams[9]
    assert nine.inputs["gender"].tolist() == [1, 0, 0, 0]
    assert nine.inputs["age"].tolist() == [2, 0, 0, 0]
    assert nine.inputs["occupation"].tolist() == [0, 10, 10, 10]
    assert nine.inputs["year"].tolist() == [[1999], [1954], [1998], [1995]], "the year is at the end of the title"
    kinds = [{g for g, there in zip(GENRES, row, strict=True) if there} for row in nine.inputs["genres"].tolist()]
    assert kinds == [
        {"Film-Noir", "Sci-Fi"}, {"Action", "Drama"}, {"Drama"}, {"Animation", "Children's", "Comedy"}
    ]  # fmt: skip


def test_the_oldest_user_is_in_the_last_age_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(tmp_path, monkeypatch)
    assert data.streams[0].inputs["age"].tolist() == [6]
    assert data.streams[4].inputs["age"].tolist() == [5]


def test_the_data_set_flips_a_tenth_of_the_labels_of_edge_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write(tmp_path, monkeypatch).noise == {0: 0.1}


def test_later_ratings_change_nothing_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write(tmp_path / "a", monkeypatch).streams[9]
    after = write(tmp_path / "b", monkeypatch, ["3::1::5::978300761", *RATINGS]).streams[9]
    assert len(after) == 5
    assert torch.equal(after.labels[:4], before.labels)
    assert all(torch.equal(after.inputs[f][:4], before.inputs[f]) for f in before.inputs)


@real
def test_the_published_archive_has_a_million_ratings_in_ten_regions() -> None:
    data = movielens.load()
    counts = [len(s) for s in data.streams]
    assert sum(counts) == 1_000_209
    assert len(counts) == 10
    assert (min(counts), max(counts)) == (52_848, 250_249)
    assert sum(int(s.labels.sum()) for s in data.streams) == 575_281
    years = torch.cat([s.inputs["year"] for s in data.streams])
    assert (years.min(), years.max()) == (1919, 2000)
    assert all(bool((s.inputs["genres"].sum(1) >= 1).all()) for s in data.streams)
