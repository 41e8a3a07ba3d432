"""Tables that are simulated without any settings are at least as good as simple baselines."""

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from alphaedge import Dataset
from alphaedge.data.table import Table
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import make_data
from benchmarks.tables import METHODS, baseline_scores, measure, shop_table, trend_table

SHOP, TREND = ("day", "shop", "sales"), ("time", "station", "value")


@cache
def frame(name: str) -> pl.DataFrame:
    return shop_table(4, 500, seed=2) if name == "shop" else trend_table(4, 500, seed=2)


def settings(folder: Path, name: str, last: str = "") -> Settings:
    file = folder / f"{name}.csv"
    frame(name).write_csv(file)
    time, edge, label = SHOP if name == "shop" else TREND
    return Settings(data="table", table=Table(file=str(file), time=time, edge=edge, label=label, last=last))


def dataset(folder: Path, name: str) -> Dataset:
    return make_data(settings(folder, name), 0)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float | str]]:
    folder = tmp_path_factory.mktemp("tables")
    said = {"shop": SHOP, "trend": TREND}
    return {name: measure(folder / f"{name}.csv", frame(name), columns) for name, columns in said.items()}


def at_least(found: dict[str, float | str], baseline: str) -> None:
    for method in METHODS:
        assert float(found[method]) >= float(found[baseline]), f"{method} against {baseline}: {found}"


def test_with_defaults_a_table_far_from_zero_is_at_least_as_good_as_its_running_mean(
    scores: dict[str, dict[str, float | str]],
) -> None:
    at_least(scores["shop"], "running mean")


def test_with_defaults_a_table_with_a_trend_is_at_least_as_good_as_persistence(
    scores: dict[str, dict[str, float | str]],
) -> None:
    assert scores["trend"]["last"] == "ago_1", "which is found among the columns"
    at_least(scores["trend"], "persistence")
    at_least(scores["trend"], "running mean")


def test_with_defaults_a_table_with_a_trend_is_at_least_as_good_as_an_online_ridge_of_river(
    scores: dict[str, dict[str, float | str]],
) -> None:
    at_least(scores["trend"], "river ridge")


def test_with_defaults_a_table_that_is_linear_is_close_to_an_online_ridge_of_river(
    scores: dict[str, dict[str, float | str]],
) -> None:
    """It is linear in one-hot columns by construction, which a ridge needs no time to find out (decision 20)."""
    assert float(scores["shop"]["alphaedge"]) >= float(scores["shop"]["river ridge"]) - 0.005


def test_with_defaults_a_table_with_a_trend_is_at_least_as_good_as_an_online_ridge(
    scores: dict[str, dict[str, float | str]],
) -> None:
    at_least(scores["trend"], "recursive ridge")
    at_least(scores["trend"], "whole ridge")


def test_what_was_resolved_gives_the_same_again(tmp_path: Path) -> None:
    once = settings(tmp_path, "trend").resolved()
    assert once.table is not None
    assert (once.model, once.batch_size, once.method.aggregate_every, once.seeds) == ("table", 10, 2, 3)
    assert once.table.last == "ago_1"
    assert once.resolved() == once


def test_what_is_named_stays(tmp_path: Path) -> None:
    once = settings(tmp_path, "trend", last="none").resolved()
    assert once.table is not None
    assert once.table.last == "none"
    assert make_data(once, 0).last is None


def test_baselines_are_scored_as_by_hand(tmp_path: Path) -> None:
    data = dataset(tmp_path, "trend")
    found = baseline_scores(data, 10)
    by_hand = [
        1 - ((s.inputs["ago_1"][:, 0] - s.labels).abs() / (s.inputs["ago_1"][:, 0].abs() + s.labels.abs())).mean()
        for s in data.streams
    ]
    assert found["persistence"] == pytest.approx(float(sum(by_hand)) / len(by_hand), abs=1e-5)
