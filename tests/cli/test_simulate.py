"""``alphaedge simulate``: mistakes end with one clear line, results go to a folder, Ctrl-C keeps finished runs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from alphaedge import Results
from alphaedge.cli import app
from alphaedge.simulation.config import load

TINY = ["--edges", "3", "--events", "60", "--batch-size", "5", "--jobs", "1", "--executor", "one-at-a-time"]


def cli(*args: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *args])


def tiny(*args: str) -> Result:
    return cli(*TINY, *args)


def no_traceback(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Run once with --out and --json."""
    out = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "pictures", lambda self: [])  # slow, and tested in test_results
        result = tiny(
            "--methods", "alphaedge,noagg", "--seeds", "2", "--delay", "1", "--peers", "1", "--adversaries", "0.34",
            "--aggregate-every", "4", "--no-home", "--out", str(out / "first"), "--json", str(out / "summary.json"),
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    return out, result


def test_the_table_shows_every_method_and_where_the_results_are(first: tuple[Path, Result]) -> None:
    _, result = first
    assert "alphaedge" in result.output
    assert "noagg" in result.output
    assert "AUC" in result.output
    assert "first" in result.output


def test_the_verdict_says_whether_learning_from_each_other_pays(first: tuple[Path, Result]) -> None:
    summary = json.loads((first[0] / "summary.json").read_text())
    verdict, hostile = summary["verdict"], {edge for edges in summary["adversaries"].values() for edge in edges}
    assert hostile, "some edges are hostile, or the test shows less"
    said = " ".join(first[1].output.split())
    assert verdict["headline"] in said
    for sentence in verdict["sentences"]:
        assert sentence in said
    for warning in verdict["warnings"]:
        assert f"warning {warning}" in said
    for region in verdict["regions"]:
        if region["gain"] is not None:
            assert f"{region['name']} {region['gain']:+.4f}" in said
    assert "rate by" in said, "a simple baseline stands beside the methods"
    assert max(len(line) for line in first[1].output.splitlines() if "Results in" not in line) <= 80


def test_the_folder_is_written(first: tuple[Path, Result]) -> None:
    files = {f.name for f in (first[0] / "first").iterdir()}
    assert {
        "summary.json",
        "scores.parquet",
        "weights.parquet",
        "pulls.parquet",
        "config.toml",
        "report.html",
    } <= files


def test_the_summary_file_has_the_documented_keys(first: tuple[Path, Result]) -> None:
    summary = json.loads((first[0] / "summary.json").read_text())
    assert summary == json.loads((first[0] / "first" / "summary.json").read_text())
    assert {"data", "task", "metric", "methods"} <= set(summary)
    assert list(summary["methods"]) == ["alphaedge", "noagg"]
    for row in summary["methods"].values():
        assert {"mean", "ci95", "per_edge", "per_seed", "bytes", "edge_batches_per_second"} <= set(row)
        assert set(row["bytes"]) == {"full", "common", "changed"}


def test_options_reach_the_settings(first: tuple[Path, Result]) -> None:
    settings = load(first[0] / "first" / "config.toml")
    assert settings.methods == ("alphaedge", "noagg")
    assert (settings.seeds, settings.store.edges, settings.store.events, settings.batch_size) == (2, 3, 60, 5)
    assert (settings.conditions.delay, settings.conditions.adversaries) == (1, 0.34)
    assert (settings.method.peers, settings.method.aggregate_every, settings.method.home) == (1, 4, False)


def test_the_written_configuration_runs_it_again_exactly(
    first: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Results, "pictures", lambda self: [])
    result = cli("--config", str(first[0] / "first" / "config.toml"), "--jobs", "1", "--out", str(tmp_path / "again"))
    assert result.exit_code == 0, result.output
    one, two = (pl.read_parquet(f / "scores.parquet") for f in (first[0] / "first", tmp_path / "again"))
    assert one.equals(two)
    assert (tmp_path / "again" / "config.toml").read_text() == (first[0] / "first" / "config.toml").read_text()


def test_options_beside_a_configuration_win(first: tuple[Path, Result], tmp_path: Path) -> None:
    result = cli(
        "--config", str(first[0] / "first" / "config.toml"), "--methods", "noagg", "--seeds", "1", "--jobs", "1",
        "--json", str(tmp_path / "s.json"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "s.json").read_text())
    assert list(summary["methods"]) == ["noagg"]
    assert len(summary["methods"]["noagg"]["per_seed"]) == 1
    assert summary["edges"] == 3


def test_a_dash_prints_the_summary_and_nothing_else() -> None:
    result = tiny("--methods", "noagg", "--json", "-")
    assert result.exit_code == 0
    assert list(json.loads(result.stdout)["methods"]) == ["noagg"]
    assert "edge-batches" in result.stderr


def test_notes_are_printed() -> None:
    result = tiny("--methods", "alphaedge")
    assert result.exit_code == 0
    assert "everybody is a neighbour" in " ".join(result.output.split())


MISTAKES: list[tuple[list[str], list[str]]] = [
    (["--methods", "magic"], ["methods", "'magic'", "alphaedge", "nops-paper"]),
    (["--methods", ""], ["methods", "at least one"]),
    (["--peers", "0"], ["peers", "found 0", "at least 1"]),
    (["--delay", "-1"], ["delay", "found -1", "at least 0"]),
    (["--drop", "1.5"], ["drop", "found 1.5", "from 0 to 1"]),
    (["--seeds", "0"], ["seeds", "found 0", "at least 1"]),
    (["--edges", "0"], ["edges", "found 0", "at least 1"]),
    (["--batch-size", "9999"], ["batch_size", "9999", "fewest events"]),
    (["--clock", "sundial"], ["clock", "'sundial'", "event-time", "batch-index"]),
    (["--executor", "turbo"], ["executor", "'turbo'", "stacked", "one-at-a-time"]),
    (["--device", "warp"], ["device", "'warp'", "cpu"]),
    (["--data", "movies"], ["data", "'movies'", "synthetic"]),
    (["--config", "/nowhere/c.toml"], ["config", "/nowhere/c.toml", "readable"]),
    (["--jobs", "-1"], ["jobs", "found -1", "at least 1"]),
    (["--methods", "[/]"], ["methods", "'[/]'"]),
]


@pytest.mark.parametrize(("args", "words"), MISTAKES, ids=[" ".join(args) for args, _ in MISTAKES])
def test_a_mistake_ends_with_code_2_and_one_clear_line(args: list[str], words: list[str]) -> None:
    result = tiny("--methods", "alphaedge", *args)
    no_traceback(result)
    assert result.exit_code == 2
    lines = [line for line in result.output.splitlines() if line.startswith("error")]
    assert len(lines) == 1
    # One line, not wrapped to the terminal's width, so that it can be searched for.
    for word in words:
        assert word in lines[0]


def test_mistakes_go_to_standard_error() -> None:
    result = tiny("--methods", "magic")
    assert "magic" in result.stderr
    assert "magic" not in result.stdout


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_a_path_that_cannot_be_written_is_refused_before_any_work(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def working(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the simulation has started")

    monkeypatch.setattr("alphaedge.cli.simulate_output.simulate", working)
    (tmp_path / "file").touch()
    result = tiny("--methods", "noagg", option, str(tmp_path / "file" / "x"))
    no_traceback(result)
    assert result.exit_code == 2
    assert "can be written" in " ".join(result.output.split())


def test_a_folder_for_the_summary_file_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def working(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the simulation has started")

    monkeypatch.setattr("alphaedge.cli.simulate_output.simulate", working)
    result = tiny("--methods", "noagg", "--json", str(tmp_path))
    no_traceback(result)
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("seedz = 1", ["seedz", "found 1", "seeds"]),
        ("[store]\nedgez = 1", ["store.edgez", "found 1", "edges"]),
        ("seeds = 'many'", ["seeds", "'many'"]),
        ("[conditions]\ndelay = 1.5", ["conditions.delay", "1.5"]),
        ("seeds =", ["config", "TOML"]),
    ],
)
def test_a_mistake_in_the_configuration_is_named(content: str, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(content)
    result = cli("--config", str(path))
    no_traceback(result)
    assert result.exit_code == 2
    for word in words:
        assert word in " ".join(result.output.split())


def test_help_lists_every_option_with_an_example() -> None:
    result = cli("--help")
    assert result.exit_code == 0
    for words in ("--methods", "--seeds", "--out", "--json", "--config", "alphaedge simulate --methods"):
        assert words in result.output


def interrupted(out: Path, jobs: int, events: int, starts: str, *args: str) -> tuple[int, str, dict[str, Any]]:
    """Run the command and press Ctrl-C once the progress shows the method ``starts``."""
    command = [
        sys.executable, "-m", "alphaedge", "simulate", "--edges", "4", "--events", str(events), "--batch-size", "50",
        "--methods", "noagg,fedweight,nops,alphaedge,randps", "--jobs", str(jobs),
        "--out", str(out), "--json", str(out / "again.json"), *args,
    ]  # fmt: skip
    environment = os.environ | {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1", "COLUMNS": "120", "NO_COLOR": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    ) as process:
        assert process.stdout is not None
        output = b""
        try:
            while f"  {starts} ".encode() not in output:
                piece = os.read(process.stdout.fileno(), 65536)
                assert piece, f"it ended on its own: {output.decode()}"
                output += piece
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the command and its workers
            output += process.stdout.read()
            code = process.wait(timeout=120)
        finally:
            process.kill()
    return code, output.decode(), json.loads((out / "summary.json").read_text())


def test_ctrl_c_keeps_finished_runs_and_ends_with_code_130(tmp_path: Path) -> None:
    code, output, summary = interrupted(tmp_path, 1, 4_000, "fedweight", "--executor", "one-at-a-time")
    assert code == 130
    assert "Interrupted" in output
    assert "Traceback" not in output
    assert list(summary["methods"]) == ["noagg"]
    assert summary["interrupted"] is True
    assert "interrupted: 4 of 5 runs are missing" in summary["messages"]
    assert json.loads((tmp_path / "again.json").read_text()) == summary
    assert set(pl.read_parquet(tmp_path / "scores.parquet")["method"]) == {"noagg"}
    assert (tmp_path / "report.html").exists()


@pytest.mark.long
def test_ctrl_c_also_ends_worker_processes(tmp_path: Path) -> None:
    """The fourth method starts when two have finished, one of them long before."""
    code, output, summary = interrupted(tmp_path, 2, 30_000, "alphaedge")
    assert code == 130
    assert "Traceback" not in output
    assert summary["interrupted"] is True
    assert set(summary["methods"]) <= {"noagg", "fedweight", "nops"}
    assert len(summary["methods"]) >= 1
