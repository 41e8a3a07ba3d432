"""The data sets in packages: what edges, inputs and labels are, on made-up packages and on the published ones."""

import math
from pathlib import Path

import pytest
import torch

from alphaedge import Dataset
from alphaedge.data.packages.package import fetch
from alphaedge.errors import ArchiveError
from alphaedge.simulation.catalog import CATALOG

from ..archives import same
from .made_up import load
from .raw import MADE_UP


def made_up(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, turn: float = 1.0) -> Dataset:
    module, members = MADE_UP[name]
    return load(module, members(turn), folder, monkeypatch)


def test_every_packaged_data_set_of_the_catalog_is_tested() -> None:
    assert set(MADE_UP) == {name for name, source in CATALOG.items() if source.package is not None}
    assert {CATALOG[name].load for name in MADE_UP} == {module.load for module, _ in MADE_UP.values()}


@pytest.mark.parametrize("name", MADE_UP)
def test_a_data_set_has_its_name_named_edges_and_events_in_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made_up(name, tmp_path, monkeypatch)
    assert data.name == name
    assert data.names is not None
    assert len(data.names) == len(data.streams) == len(set(data.names)) >= 2
    assert list(data.names) == sorted(data.names)
    for stream in data.streams:
        assert len(stream) > 0
        assert bool((stream.times.diff() >= 0).all())
    assert same(data, MADE_UP[name][0].load()), "loading twice gives the same events"


@pytest.mark.parametrize("name", MADE_UP)
@pytest.mark.parametrize("turn", [0.3, 0.7])
def test_labels_after_a_moment_change_no_input_up_to_then(
    name: str, turn: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made_up(name, tmp_path / "a", monkeypatch)
    two = made_up(name, tmp_path / "b", monkeypatch, turn)
    changed = [
        float(a.times[a.labels != b.labels].min())
        for a, b in zip(one.streams, two.streams, strict=True)
        if bool((a.labels != b.labels).any())
    ]
    assert changed, "some labels differ"
    first = min(changed)
    for a, b in zip(one.streams, two.streams, strict=True):
        assert torch.equal(a.times, b.times)
        before = a.times <= first
        assert bool(before.any())
        for field in a.inputs:
            assert torch.equal(a.inputs[field][before], b.inputs[field][before]), field


def test_flights_have_the_weather_of_an_earlier_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up("flights", tmp_path, monkeypatch)
    assert data.names == ("ATL", "BOS"), "a destination with ten flights is no edge"
    assert sum(len(s) for s in data.streams) == 2_400 - 24, "cancelled flights have no label"
    names = MADE_UP["flights"][0].NUMBERS
    start = 1_356_998_400 + 5 * 3600  # midnight in New York
    for stream in data.streams:
        numbers = dict(zip(names, stream.inputs["numbers"].T, strict=True))
        hour = (stream.times - start) // 3600
        known = numbers["weather_known"] == 1
        gap = (hour > 205) & (hour <= 220)  # more than six hours after the last report
        assert torch.equal(known, ~gap & (hour > 0))
        fresh = known & ~((hour > 200) & (hour <= 220))
        assert torch.equal(numbers["temp"][fresh].double(), hour[fresh] - 1)
        assert bool((numbers["temp"][~known] == MADE_UP["flights"][0].WEATHER["temp"]).all())
        assert int(stream.inputs["aircraft"].min()) == 0, "an unknown aircraft has the code 0"


def test_a_flight_is_late_after_more_than_15_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up("flights", tmp_path, monkeypatch)
    share = float(torch.cat([s.labels for s in data.streams]).mean())
    assert share == pytest.approx(44 / 80, abs=0.03), "delays are drawn evenly from -20 to 59"


def test_car_parks_have_their_last_four_shares_latest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up("parking", tmp_path, monkeypatch)
    assert data.names == ("P1", "P2")
    assert (data.task, data.label_scale) == ("regress", 0.5)
    for stream, places in zip(data.streams, (400, 100), strict=True):
        assert len(stream) == 196
        shares = [0.0 if n == 5 else n * 7 % places / places for n in range(200)]
        assert stream.labels.tolist() == pytest.approx(shares[4:])
        for ago in range(4):
            assert stream.inputs["past"][:, ago].tolist() == pytest.approx(shares[3 - ago : 199 - ago])
        hours = stream.inputs["now"][:, 0]
        assert sorted(set(hours.tolist())) == [0.5, 16.0]


def test_users_of_an_occupation_are_an_edge_and_four_stars_a_positive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made_up("ml-100k", tmp_path, monkeypatch)
    assert data.names == ("artist", "none", "writer")
    users = [set(s.inputs["user"].tolist()) for s in data.streams]
    assert sum(map(len, users)) == len(set().union(*users)) == 9
    for stream in data.streams:
        second = (stream.times - 880_000_000).long()
        assert torch.equal(stream.labels, (second % 5 >= 3).float())
        assert torch.equal(stream.inputs["film"], second % 7)
        genres = stream.inputs["genres"]
        assert torch.equal(genres.sum(1), torch.where((1 + second % 7) % 3 == 0, 2.0, 1.0))


def test_cancelled_lines_are_positives_and_their_sign_is_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made_up("online-retail", tmp_path, monkeypatch)
    assert data.names == ("France", "Italy", "United Kingdom"), "20 lines are too few"
    sizes = dict(zip(data.names, map(len, data.streams), strict=True))
    assert sizes["France"] == 1_100 - 22, "lines without a price are left out"
    assert 1_100 < sizes["United Kingdom"] < 1_250, "one British invoice in ten is kept"
    for stream in data.streams:
        pieces = stream.inputs["numbers"][:, 1]
        assert bool((pieces > 0).all())
        assert 0.2 < stream.labels.mean() < 0.35
        assert bool((stream.inputs["customer"] == 0).any()), "unknown customers have the code 0"


def test_what_is_known_after_a_booking_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up("expedia", tmp_path, monkeypatch)
    assert data.names == ("site 02", "site 11")
    names = MADE_UP["expedia"][0].NUMBERS
    assert not {"cnt", "hotel_cluster", "user_id"} & {*names, *(f.name for f in data.fields)}
    for stream in data.streams:
        numbers = dict(zip(names, stream.inputs["numbers"].T, strict=True))
        assert float(numbers["nights"].max()) == 3
        assert float(numbers["days_ahead"].max()) == pytest.approx(20 / 30)
        assert bool((numbers["nights"][numbers["dates_known"] == 0] == 0).all())
    unknown = [int((s.inputs["numbers"][:, names.index("dates_known")] == 0).sum()) for s in data.streams]
    assert sum(unknown) == 31, "no dates, or a date that does not exist"


def test_births_of_earlier_days_are_the_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up("birthdays", tmp_path, monkeypatch)
    assert data.names == ("CA", "WY")
    for stream, scale in zip(data.streams, (1_000, 10), strict=True):
        births = [float(scale + n * 7 % 50) for n in range(100)]
        assert stream.labels.tolist() == births[28:]
        for place, ago in enumerate(MADE_UP["birthdays"][0].DAYS_AGO):
            assert stream.inputs["past"][:, place].tolist() == births[28 - ago : 100 - ago]
        # 29 January 2013, the first day with four weeks before it, was a Tuesday.
        assert stream.inputs["weekday"][:3].tolist() == [1, 2, 3]


def test_films_belong_to_one_genre_and_users_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up("film-genres", tmp_path, monkeypatch)
    assert data.names == ("Comedy", "Drama")
    films, users = ([set(s.inputs[f].tolist()) for s in data.streams] for f in ("film", "user"))
    assert not films[0] & films[1]
    assert users[0] == users[1]
    ages = torch.cat([s.inputs["age"] for s in data.streams])
    assert bool(torch.isfinite(ages).all())
    assert math.isclose(float(ages.min()), 10), "an unknown year counts as ten years ago"


def published(name: str) -> Dataset:
    """Load the published package; skips the test if it is not here and can't be fetched."""
    package, source = MADE_UP[name][0].PACKAGE, CATALOG[name]
    assert source.load is not None
    try:
        fetch(package, lambda _: None)
    except ArchiveError as error:
        pytest.skip(f"the package can't be fetched: {error}")
    return source.load()


# Edges, events, and the mean of all labels.
PUBLISHED = {
    "flights": (56, 309_649, 0.2345),
    "parking": (30, 35_381, 0.4955),
    "ml-100k": (21, 100_000, 0.5538),
    "online-retail": (16, 174_007, 0.0246),
    "expedia": (13, 96_248, 0.0792),
    "birthdays": (51, 371_127, 189.2085),
    "film-genres": (11, 98_851, 0.5156),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MADE_UP)
def test_the_published_package_has_these_edges_and_events(name: str) -> None:
    data = published(name)
    labels = torch.cat([s.labels for s in data.streams])
    edges, events, middle = PUBLISHED[name]
    assert (len(data.streams), len(labels)) == (edges, events)
    assert float(labels.double().mean()) == pytest.approx(middle, rel=1e-3)
