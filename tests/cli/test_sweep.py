"""``alphaedge sweep``: a tidy table, a picture, resuming, and mistakes that end with one clear line."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from alphaedge.cli import app
from alphaedge.data.synthetic import Store
from alphaedge.experiments.sweep import SweepCell
from alphaedge.import_path import source_of
from alphaedge.settings import MethodSettings
from alphaedge.simulation.config import Settings
from alphaedge.simulation.simulate import simulate

TINY = ["--set", "store.edges=3", "--set", "store.events=80", "--set", "batch_size=5", "--jobs", "1"]
SWEPT = ["--set", "aggregate_every=4,8", "--set", "peers=1,2"]


def sweep(*args: str) -> Result:
    return CliRunner().invoke(app, ["sweep", *TINY, *args])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("sweep") / "out"
    result = sweep(*SWEPT, "--seeds", "2", "--out", str(out), "--json", str(out.parent / "summary.json"))
    assert result.exit_code == 0, result.output
    return out, result


def test_every_point_method_seed_and_edge_has_a_row(first: tuple[Path, Result]) -> None:
    rows = pl.read_parquet(first[0] / "sweep.parquet")
    assert len(rows) == 4 * 2 * 2 * 3  # points, methods, seeds, edges
    assert set(rows["method"]) == {"alphaedge", "noagg"}
    key = ["method.aggregate_every", "method.peers", "method", "seed", "edge"]
    assert len(rows.select(key).unique()) == len(rows)


def test_a_point_scores_what_a_simulation_of_its_settings_scores(first: tuple[Path, Result]) -> None:
    summary = json.loads((first[0].parent / "summary.json").read_text())
    point = {"method.aggregate_every": 4, "method.peers": 2}
    (entry,) = (e for e in summary if e["method"] == "alphaedge" and e["settings"].items() >= point.items())
    overrides = MethodSettings(aggregate_every=4, peers=2)
    settings = Settings(store=Store(edges=3, events=80), batch_size=5, seeds=2, method=overrides)
    found = simulate(settings, methods=["alphaedge"]).summary()
    assert entry["mean"] == pytest.approx(found["methods"]["alphaedge"]["mean"], abs=1e-6)


def test_learning_alone_is_run_once_for_all_settings_of_the_method(first: tuple[Path, Result]) -> None:
    cells = [file.name for file in (first[0] / "cells").glob("*.json")]
    assert sum("noagg" in name for name in cells) == 1
    assert sum("alphaedge" in name for name in cells) == 4


def test_the_table_shows_what_varies_and_the_picture_is_there(first: tuple[Path, Result]) -> None:
    out, result = first
    assert "aggregate_every" in result.output
    assert "batch_size" not in result.output
    assert (out / "sweep.png").stat().st_size > 10_000
    assert "<svg" in (out / "sweep.svg").read_text()


def test_finished_cells_are_reused_only_when_asked_for(first: tuple[Path, Result]) -> None:
    out, _ = first
    refused = sweep(*SWEPT, "--seeds", "2", "--out", str(out))
    assert refused.exit_code != 0
    assert "--resume" in refused.output
    files = {file: file.stat().st_mtime_ns for file in (out / "cells").glob("*.json")}
    again = sweep(*SWEPT, "--seeds", "2", "--out", str(out), "--resume")
    assert again.exit_code == 0, again.output
    assert files == {file: file.stat().st_mtime_ns for file in (out / "cells").glob("*.json")}


def test_an_impossible_point_is_refused_before_any_work(tmp_path: Path) -> None:
    result = sweep("--set", "aggregate_every=4,0", "--out", str(tmp_path / "out"))
    assert result.exit_code != 0
    assert "aggregate_every: found 0" in result.output
    assert not (tmp_path / "out" / "cells").exists()


def test_without_a_variation_it_says_how_to_write_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sweep", "--out", str(tmp_path / "out")])
    assert result.exit_code != 0
    assert "KEY=VALUE" in result.output


def test_a_point_that_never_aggregates_says_so(tmp_path: Path) -> None:
    result = sweep("--set", "aggregate_every=4,100", "--seeds", "1", "--json", "-", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    notes = [note for entry in json.loads(result.stdout) for note in entry["notes"]]
    assert any("never aggregates" in note for note in notes)


def test_an_import_path_in_a_results_folder_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "config.toml").write_text('methods = ["tests.own_rules:median"]\n')
    result = sweep("--config", str(tmp_path / "config.toml"), "--set", "peers=1,2", "--out", str(tmp_path / "out"))
    assert result.exit_code != 0
    assert "no import path from a results folder" in result.output


def test_a_single_point_has_a_table_and_a_picture_too(tmp_path: Path) -> None:
    result = sweep("--set", "peers=1", "--seeds", "1", "--methods", "noagg", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "sweep.png").is_file()
    assert "peers = 1" in (tmp_path / "out" / "config.toml").read_text()


def test_hostile_edges_are_marked_so_that_the_means_agree(tmp_path: Path) -> None:
    attacked = [
        "--set",
        "aggregate_every=4",
        "--set",
        "conditions.adversaries=0.34",
        "--set",
        "attack=random-model,flipped-labels",
    ]
    result = sweep(*attacked, "--seeds", "2", "--methods", "uniweight", "--json", "-", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    honest = pl.read_parquet(tmp_path / "out" / "sweep.parquet").filter(~pl.col("hostile"))
    for entry in json.loads(result.stdout):
        rows = honest.filter(pl.col("conditions.attack") == entry["settings"]["conditions.attack"])
        means = rows.group_by("seed").agg(pl.col("score").mean())["score"]
        assert means.mean() == pytest.approx(entry["mean"])


def test_a_rule_of_ones_own_that_has_changed_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "from alphaedge import methods\n\n\ndef mine():\n    return methods.uniweight(aggregate_every={})\n"
    for every in (4, 5):
        (tmp_path / f"swept_rule_{every}.py").write_text(text.format(every))
    assert source_of("mine=swept_rule_4:mine") != source_of("mine=swept_rule_5:mine")
    cells = [SweepCell(method="mine=swept_rule_4:mine", whole=Settings()) for _ in range(2)]
    assert cells[0].key() == cells[1].key()
