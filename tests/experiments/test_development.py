"""``alphaedge reproduce development``: its cells see nothing that is for reporting; its table says what was gained."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.experiments.cell import CellResult
from alphaedge.experiments.development_table import development_blocks, gap_closed
from alphaedge.experiments.plan import DEVELOPMENT_METHODS, EXPERIMENTS, Plan
from alphaedge.experiments.reproduce import page
from alphaedge.experiments.suites import DATA_SETS, DEVELOPMENT, EVENTS, REPORTING, WHOLLY_DEVELOPMENT
from alphaedge.report.page import markdown
from alphaedge.scoring import Score
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.task import make_data

from ..data.archives import real

PLAN = Plan(experiments=("development",), runs=2)


def test_every_data_set_of_the_catalog_is_on_one_side_of_the_split() -> None:
    assert not set(DEVELOPMENT) & set(REPORTING)
    others = {"synthetic", "table", "completejourney-stores", "tafeng-areas"}  # the store, yours, and other cuts
    assert {*DEVELOPMENT, *REPORTING, *others} == set(CATALOG)


def test_the_suite_is_not_part_of_all_and_has_no_reporting_data() -> None:
    assert "development" not in EXPERIMENTS
    cells = PLAN.cells()
    assert {c.data for c in cells} == set(DEVELOPMENT)
    assert len(cells) == len(DEVELOPMENT) * len(DEVELOPMENT_METHODS)


@pytest.mark.parametrize("rows", [None, 0, 40_000, 10**9])
def test_of_the_papers_data_only_the_first_quarter_is_used(rows: int | None) -> None:
    plan = Plan(experiments=("development",), rows=rows)
    for data in DATA_SETS:
        cell = plan.development_cell(data, "alphaedge")
        assert cell.rows is None, "rows would be cut from after the first quarter"
        assert cell.first is not None
        assert 0 < cell.first <= 0.25
        assert cell.settings().first == cell.first
    assert all(plan.development_cell(data, "alphaedge").first is None for data in WHOLLY_DEVELOPMENT)


@real
@pytest.mark.long
@pytest.mark.parametrize("data", DATA_SETS)
def test_the_numbers_of_events_are_those_of_the_archives(data: str) -> None:
    load = CATALOG[data].load
    assert load is not None
    whole = load()
    assert sum(len(s) for s in whole.streams) == EVENTS[data]
    used = make_data(Plan(rows=0).development_cell(data, "noagg").settings(), 0)
    reported = whole.window(EVENTS[data] * 3 // 4)
    last, first = (f(float(s.times[i]) for s in part.streams) for f, i, part in ((max, -1, used), (min, 0, reported)))
    assert last <= first


def test_the_suite_becomes_a_page_with_one_table(tmp_path: Path) -> None:
    args = ["development", "--quick", "--data", "world-clusters,world-shifting", "--jobs", "1"]
    result = CliRunner().invoke(app, ["reproduce", *args, "--out", str(tmp_path / "out")], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    written = (tmp_path / "out" / "results.md").read_text()
    assert written.startswith("# The development suite")
    assert "The paper's evaluation" not in written
    assert "| data set | method | score | gain over NoAgg | gap closed |" in written.replace("---", "").replace(
        "  ", " "
    )
    for name in ("World: clusters", "World: shifting", "**Average of 2**"):
        assert written.count(f"| {name} |") == len(DEVELOPMENT_METHODS)
    rows = list(csv.DictReader((tmp_path / "out" / "cells.csv").open()))
    assert [r["method"] for r in rows] == [*DEVELOPMENT_METHODS] * 2
    assert all(0.5 < float(r["mean"]) < 1 for r in rows)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["development", "--data", "expedia"], ["'expedia'", "flights", "movielens"]),
        (["table1", "--data", "flights"], ["'flights'", "movielens"]),
        (["development", "--data", "parking,parking"], ["parking,parking", "each once"]),
        (["development", "table1", "--data", "birthdays"], ["'birthdays'"]),
        (["development", "table1", "--data", "flights"], ["at least one data set of table1"]),
    ],
)
def test_data_that_an_experiment_must_not_see_are_refused(args: list[str], words: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", *args, "--out", str(tmp_path)])
    assert result.exit_code == 2
    for word in words:
        assert word in result.output


def result(*scores: float) -> CellResult:
    return CellResult(per_seed=list(scores), per_edge=[], curves=[])


def test_the_table_has_paired_gains_and_shares_of_the_gap() -> None:
    plan = Plan(experiments=("development",), development=("parking", "world-clusters"), runs=2)
    parking = ((0.5, 0.6), (0.51, 0.61), (0.4, 0.5), (0.55, 0.67), (0.6, 0.7))
    clusters = ((0.7, 0.7), (0.6, 0.6), (0.7, 0.7), (0.71, 0.71), (0.6, 0.6))
    cells = {
        plan.development_cell(data, method): result(*runs)
        for data, scores in (("parking", parking), ("world-clusters", clusters))
        for method, runs in zip(DEVELOPMENT_METHODS, scores, strict=True)
    }
    lines = markdown(development_blocks(plan, cells.get)).splitlines()
    table = {tuple(c.strip() for c in line.strip("| ").split(" | ")) for line in lines if line.startswith("| ")}
    assert ("Car parks", "FedWeight", "0.5600 ± 0.6353", "+0.0100", "0.10") in table, (
        "the runs differ, the gain does not"
    )
    assert ("Car parks", "AlphaEdge", "0.6100 ± 0.7624", "+0.0600 ± 0.1271", "0.60") in table
    assert ("World: clusters", "AlphaEdge", "0.7100", "+0.0100", "\N{EN DASH}") in table, "there is no gap to close"
    assert any(row[:2] == ("**Average of 2**", "AlphaEdge") and row[-1] == "0.60 (of 1)" for row in table)


def test_the_table_claims_nothing_without_cells() -> None:
    text = markdown(page(PLAN, dict.fromkeys(PLAN.cells()), "alphaedge reproduce development", "today"))
    assert "Average" not in text
    assert "Goals" not in text


def test_a_gap_that_is_too_small_has_no_share() -> None:
    def score(value: float) -> Score:
        return Score(value, None, (value,))

    assert gap_closed({"noagg": score(0.7), "pooled": score(0.7005), "alphaedge": score(0.71)}, "alphaedge") is None
    assert gap_closed({"noagg": score(0.7), "alphaedge": score(0.71)}, "alphaedge") is None
    assert gap_closed(
        {"noagg": score(0.7), "pooled": score(0.8), "alphaedge": score(0.69)}, "alphaedge"
    ) == pytest.approx(-0.1)
