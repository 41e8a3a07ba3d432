"""``alphaedge reproduce`` on a small archive: cells, resuming, the page, and cells that are skipped."""

import csv
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from alphaedge.attacks.catalog import ATTACKS
from alphaedge.cli import app
from alphaedge.core.methods import RIVALS
from alphaedge.experiments.cell import Cell, CellResult
from alphaedge.experiments.cell_store import CellStore
from alphaedge.experiments.plan import EXPERIMENTS, MAIN_METHODS, MANY_EDGES, OTHER_EXPERIMENTS, Plan
from alphaedge.experiments.reproduce import page
from alphaedge.experiments.run_cells import run_cells, skip_reason
from alphaedge.experiments.score_table import title
from alphaedge.experiments.suites import DATA_SETS
from alphaedge.report.page import markdown
from alphaedge.simulation.task import make_data
from alphaedge.simulation.workers.protocol import Here

from ..data.archives import real


def run(*args: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", *args, "--jobs", "1"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_table_and_a_figure_become_a_page_with_pictures_and_numbers(films: Path) -> None:
    out = films / "out"
    output = run("table3", "staleness", "--data", "movielens", "--runs", "2", "--rows", "all", "--out", str(out))
    assert f"Results in {out}" in output
    written = (out / "results.md").read_text()
    assert "## Table 3: 25% of the edges hostile" in written
    assert "(0.705)" in written, "the paper's number stands beside ours"
    assert "**" in written
    # Of 30 batches: at every 20th in the literal reading, at every 5th otherwise.
    assert "an edge aggregates once, so no model is ever 5 periods old" in written
    assert "an edge aggregates 6 times, so no model is ever 10 periods old" in written
    assert "\N{EN DASH} [1]" in written
    html = (out / "results.html").read_text()
    assert "<table>" in html
    assert 'src="data:image/png' in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert (out / "staleness.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "staleness.svg").read_text()
    rows = list(csv.DictReader((out / "cells.csv").open()))
    assert {r["method"] for r in rows} >= set(MAIN_METHODS)


CELL = Cell(data="movielens", method="noagg", runs=2)


def test_finished_cells_are_not_run_again_and_give_the_same_page(films: Path) -> None:
    out, args = films / "out", ("table2", "--data", "movielens", "--runs", "1", "--rows", "all")
    run(*args, "--out", str(out))
    first = {p.name: p.stat().st_mtime_ns for p in (out / "cells").iterdir()}
    table = (out / "cells.csv").read_text()
    run(*args, "--resume", "--out", str(out))
    assert {p.name: p.stat().st_mtime_ns for p in (out / "cells").iterdir()} == first
    assert (out / "cells.csv").read_text() == table
    again = CliRunner().invoke(app, ["reproduce", *args, "--out", str(out)])
    assert again.exit_code == 2
    assert "--resume" in again.output


def test_an_interruption_keeps_finished_cells(films: Path) -> None:
    store = CellStore(films / "cells")
    cells = [CELL, msgspec.structs.replace(CELL, delay=1)]

    def stop(share: float, finished: int, count: int, title: str) -> None:
        if finished == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, store, Here(), stop)
    assert store.get(cells[0]) is not None
    assert store.get(cells[1]) is None


def test_a_damaged_file_counts_as_an_unfinished_cell(films: Path) -> None:
    store = CellStore(films / "cells")
    store.put(CELL, CellResult(per_seed=[0.5], per_edge=[], curves=[]))
    assert store.get(CELL) is not None
    path = next((films / "cells").iterdir())
    path.write_bytes(path.read_bytes()[:20])
    assert store.get(CELL) is None


@pytest.mark.parametrize(
    "field",
    ["delay", "runs", "rows", "first", "aggregate_every", "batch_factor", "adversaries", "drop", "initial", "attack"],
)
def test_every_field_changes_the_key_of_a_cell(films: Path, field: str) -> None:
    words = {"initial": "different", "attack": "drift"}
    value = words.get(field, 0.5 if field in ("batch_factor", "adversaries", "drop", "first") else 7)
    base = msgspec.structs.replace(CELL, method="alphaedge")
    assert msgspec.structs.replace(base, **{field: value}).key() != base.key()


def test_the_page_says_which_goals_are_reached(films: Path) -> None:
    out = films / "out"
    run("table1", "--data", "movielens", "--runs", "1", "--rows", "all", "--out", str(out))
    written = (out / "results.md").read_text()
    assert "| MovieLens-1M: at least 0.719 |" in written
    assert "| **no** |" in written or "| yes |" in written
    assert "Scores after the first quarter" in written
    assert "Edges that start from different models" in written


def test_attacks_become_a_picture_a_table_and_goals(films: Path) -> None:
    out = films / "out"
    run("attacks", "--data", "movielens", "--runs", "1", "--rows", "11000", "--out", str(out))
    written = (out / "results.md").read_text()
    assert "## Attacks: 25% of the edges hostile" in written
    assert (out / "attacks.png").read_bytes().startswith(b"\x89PNG")
    rows = {line.split(" | ")[0].strip("| ") for line in written.splitlines() if line.startswith("| ")}
    assert {"all honest", *ATTACKS} <= rows
    assert "under every attack at least NoAgg - 0.002" in written
    cells = [row for row in csv.DictReader((out / "cells.csv").open()) if row["adversaries"] == "0.25"]
    assert len([row for row in cells if row["method"] == "alphaedge"]) == len(ATTACKS)
    assert len([row for row in cells if row["method"] == "noagg"]) == 1, "nobody can harm an edge that learns alone"


def test_rivals_from_the_literature_join_tables_1_and_3_with_their_bytes(films: Path) -> None:
    out = films / "out"
    run("table1", "table3", "--quick", "--rivals", "--data", "movielens", "--rows", "all", "--out", str(out))
    written = (out / "results.md").read_text()
    assert written.count("### Scores and bytes") == 2
    assert "Against the best rival that pulls at most 1.1 times as much as AlphaEdge: MovieLens-1M" in written
    cells = list(csv.DictReader((out / "cells.csv").open()))
    for name in RIVALS:
        assert re.search(rf"^\| {re.escape(title(name))} \| \*{{0,2}}0\.\d{{4}}", written, re.MULTILINE), name
        mine = [row for row in cells if row["method"] == name]
        assert {row["adversaries"] for row in mine} == {"0.0", "0.25"}, name
        assert all(int(row["bytes"]) > 0 for row in mine), name
    assert re.search(r"^\| FedFomo \| 0\.\d{4} / [\d.]+ [kM]B \|$", written, re.MULTILINE)


def test_rivals_from_the_literature_join_the_attacks_in_a_table_of_their_own(films: Path) -> None:
    plan = Plan(experiments=("attacks",), data=("movielens",), rivals=True)
    results = {
        cell: CellResult(per_seed=[0.6], per_edge=[[0.6, 0.6]], curves=[], bytes=(9, 8, 4)) for cell in plan.cells()
    }
    text = markdown(page(plan, results, "alphaedge reproduce", "today"))
    assert "| " + " | ".join(["NoAgg", *(title(name) for name in RIVALS), "AlphaEdge"]) + " |" in text
    assert "| bytes | 2 bytes |" in text


def test_without_the_flag_no_rival_from_the_literature_is_run() -> None:
    assert not {cell.method for cell in Plan().cells()} & set(RIVALS)
    for name in ("table1", "table3", "attacks"):
        assert set(RIVALS) <= {cell.method for cell in Plan(rivals=True).cells_of(name, "tafeng")}


def test_the_page_claims_nothing_without_cells(films: Path) -> None:
    plan = Plan(data=("movielens",))
    text = markdown(page(plan, dict.fromkeys(plan.cells()), "alphaedge reproduce", "today"))
    assert "holds" not in text
    assert "There are no cells to judge AlphaEdge by." in text
    assert "Too few cells" in text


def test_a_meaningless_cell_is_skipped_with_a_reason(films: Path) -> None:
    data = make_data(CELL.settings(), 0)
    mixing = msgspec.structs.replace(CELL, method="alphaedge", aggregate_every=4)
    assert skip_reason(mixing, data) is None
    assert skip_reason(msgspec.structs.replace(mixing, staleness=7), data) == (
        "an edge aggregates 7 times, so no model is ever 7 periods old"
    )
    assert "never aggregates" in (skip_reason(msgspec.structs.replace(mixing, aggregate_every=40), data) or "")
    assert "after the end" in (skip_reason(msgspec.structs.replace(CELL, delay=20), data) or "")


def test_a_plan_has_every_cell_once_and_noagg_only_where_it_differs() -> None:
    plan = Plan()
    cells = plan.cells()
    assert len(cells) == len(set(cells))
    assert {c.data for c in cells} == {*DATA_SETS, *MANY_EDGES.values()}
    stale = [
        c for e in ("staleness", "aggregation-period") for c in plan.cells_of(e, "movielens") if c.method == "noagg"
    ]
    assert len(set(stale)) == 1
    assert [c for c in plan.cells_of("delay", "movielens") if c.method == "noagg"][1].delay == 5


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["table9"], ["experiment", "'table9'", "table1", "batch-size"]),
        (["table1", "--data", "mnist"], ["data", "'mnist'", "movielens"]),
        (["table1", "--runs", "0"], ["runs", "0", "at least 1"]),
        (["table1", "--rows", "many"], ["rows", "'many'", "all"]),
        (["table1", "--data", "movielens,movielens"], ["data", "movielens,movielens", "each once"]),
    ],
)
def test_bad_arguments_are_refused_by_name(tmp_path: Path, args: list[str], words: list[str]) -> None:
    result = CliRunner().invoke(app, ["reproduce", *args, "--out", str(tmp_path)])
    assert result.exit_code == 2
    for word in words:
        assert word in result.output


def test_help_names_every_experiment() -> None:
    output = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output
    for name in (*EXPERIMENTS, *OTHER_EXPERIMENTS):
        assert name in output


@real
@pytest.mark.long  # CI calls the command itself
def test_the_quick_form_of_table_1_runs_on_the_real_archives(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "table1", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    written = (tmp_path / "results.md").read_text()
    for words in (
        "Complete Journey",
        "Ta-Feng",
        "MovieLens-1M",
        "AirQuality",
        "Persistence",
        "Pooled",
        "Communication",
    ):
        assert words in written


@real
@pytest.mark.long
def test_the_quick_form_with_rivals_runs_on_the_real_archives(tmp_path: Path) -> None:
    args = ["reproduce", "table1", "table3", "--quick", "--rivals", "--data", "airquality", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    written = (tmp_path / "results.md").read_text()
    assert all(written.count(f"| {title(name)} | ") >= 4 for name in RIVALS)
