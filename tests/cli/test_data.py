"""``alphaedge simulate --data``: a missing or damaged archive ends with one clear line; a good one runs."""

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from alphaedge.cli import app
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.config import load

TINY = ["--methods", "noagg", "--batch-size", "5", "--jobs", "1", "--executor", "one-at-a-time"]


def simulate(*args: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *TINY, *args])


@pytest.fixture(autouse=True)
def no_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_archive_that_must_be_fetched_by_hand_is_explained(tmp_path: Path) -> None:
    result = simulate("--data", "airquality")
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("error")]
    for words in ("kddcup2018.zip", "https://www.biendata.xyz", str(tmp_path / "cache"), "ALPHAEDGE_DATA"):
        assert words in line


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "tafeng.zip").write_bytes(b"no zip file")
    result = simulate("--data", "tafeng")
    assert result.exit_code == 2, result.output
    assert str(tmp_path / "tafeng.zip") in result.stderr


def test_an_unknown_model_is_refused_with_the_models_of_the_data_set() -> None:
    result = simulate("--data", "airquality", "--model", "deepfm")
    assert result.exit_code == 2, result.output
    assert "model: found 'deepfm'; allowed: one of mlp, change" in result.stderr


def test_a_good_archive_runs_with_the_defaults_of_its_data_set(tmp_path: Path) -> None:
    users = "".join(f"{1 + e}::F::1::10::{e}8067\n" for e in range(10))
    ratings = "".join(f"{1 + i % 10}::{1 + i % 3}::{1 + i * i % 5}::{i}\n" for i in range(200))
    movies = "".join(f"{m}::Film {m} (1995)::Drama\n" for m in (1, 2, 3))
    files = {"users.dat": users, "ratings.dat": ratings, "movies.dat": movies}
    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"ml-1m/{name}", text)
    result = simulate("--data", "movielens", "--json", str(tmp_path / "s.json"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["data"], summary["edges"], summary["metric"]) == ("movielens", 10, "AUC")
    settings = load(tmp_path / "out" / "config.toml")
    rate = CATALOG["movielens"].models["deepfm"].rate
    assert (settings.data, settings.model, settings.rate) == ("movielens", "deepfm", rate)
