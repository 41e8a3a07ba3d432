"""The README's examples run as printed; benchmarks run in their quick form."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from benchmarks import isolation, live

from .data.archives import real
from .edge.forks import ForkedProcess, can_fork

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIVE = {"demo", "status", "dashboard", "replay"}  # commands that need running edges: test_live_commands.py
# Benchmarks that measure one process: in this one, which has loaded torch and its compiler.
WITHOUT_PROCESSES = {"engine", "aggregation", "data_sets", "transfer", "compression"}
SMALL = ["--edges", "4", "--events", "400", "--jobs", "1"]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def readme_commands() -> list[str]:
    return [line for block in _blocks("sh") for line in block.splitlines() if line.startswith("alphaedge ")]


def test_the_python_example_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = _blocks("python")
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "results/mine/report.html").is_file()


def test_the_commands_run_in_the_order_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = readme_commands()
    assert len(commands) >= 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in commands:
        words = shlex.split(command, comments=True)[1:]
        if "--data" in words or "reproduce" in words or words[0] in LIVE:
            continue  # tested below and in test_live_commands.py
        if words[:2] == ["fleet", "up"]:
            continue  # it runs until Ctrl-C; test_live_docs.py and tests/fleet run it
        if words[0] != "simulate":
            small = []
        elif {"--help", "--config", "--table"} & set(words):
            small = ["--jobs", "1"]
        else:
            small = [*SMALL, "--seeds", "1"]
        result = CliRunner().invoke(app, [*words, *small])
        assert result.exit_code == 0, f"{command}: {result.output}"


@real
@pytest.mark.long
def test_the_commands_on_real_data_run_in_a_short_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place, command in enumerate(readme_commands()):
        words = shlex.split(command, comments=True)[1:]
        if words[0] in LIVE:
            continue
        if "--data" in words:
            short = ["--rows", "10000"]
        elif "all" in words:
            short = ["--quick", "--rows", "8000", "--data", "airquality"]
        elif "reproduce" in words:
            short = ["--out", str(tmp_path / str(place))]
        else:
            continue
        result = CliRunner().invoke(app, [*words, *short])
        assert result.exit_code == 0, f"{command}: {result.output}"


def test_make_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for block in _blocks("sh"):
        for target in re.findall(r"^make ([a-z-]+)", block, flags=re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_file_that_the_readme_names_exists() -> None:
    for path in re.findall(r"`((?:src|docs|benchmarks)/[^`*]*)`|\]\(([^)#:]+)\)", README):
        assert (ROOT / (path[0] or path[1])).exists(), path


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("engine", {"mlp", "deepfm"}),
        ("aggregation", {"mlp", "deepfm"}),
        pytest.param("whole_runs", {"synthetic"}, marks=pytest.mark.long),
        ("data_sets", {"world-clusters", "world-shifting"}),
        ("private_intersection", {"multiplication_us", "pulls"}),
        ("transfer", {"changed_over_full", "known_peer_over_full", "bf16_over_full", "int8_over_full"}),
        ("compression", {"full", "bfloat16", "int8", "int8, min_change 0.5", "int8, publish_bytes 1000"}),
        ("private_step", {"mlp", "deepfm", "convolution", "attention"}),
        ("startup", {"import alphaedge", "alphaedge --help", "alphaedge status --help", "alphaedge edge init"}),
        pytest.param(
            "limits", {"refused: a gzip bomb of 100 MB", "peers: refused: a gzip bomb"}, marks=pytest.mark.long
        ),
        pytest.param("attacks", {"random-model", "slow-peer"}, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
        pytest.param("table", {"sales.parquet", "sales.csv", "sales.csv.gz"}, marks=pytest.mark.long),
        pytest.param("dashboard", {"6", "200"}, marks=pytest.mark.long),
        pytest.param("serving", {"ratio_to_mlserver"}, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
        pytest.param("peers", {"simulators", "learners"}, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
        pytest.param("scaling", {"mlp", "id_tables"}, marks=pytest.mark.long),
        pytest.param("internet_scale", {"selection", "gossip", "directory", "limits"}, marks=pytest.mark.long),
        pytest.param("readings", {"alphaedge()"}, marks=pytest.mark.long),
        pytest.param("rivals", {"pens, kept 2", "l2c, rate 0.1"}, marks=pytest.mark.long),
    ],
)
def test_a_benchmark_writes_the_figures_it_promises(
    name: str, keys: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    words = ["--quick", "--json", str(file)]
    if name in WITHOUT_PROCESSES:
        monkeypatch.setattr(sys, "argv", [name, *words])
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    else:
        command = [sys.executable, "-m", f"benchmarks.{name}", *words]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert keys <= set(figures)
    if name in ("engine", "aggregation"):
        assert all(figures[k]["ratio"] > 0 for k in keys)


def test_the_benchmark_of_isolation_writes_the_figures_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts six edges, one after the other, which takes it a minute unless they are forks."""
    file = tmp_path / "figures.json"
    if can_fork():
        monkeypatch.setattr(live, "start_process", ForkedProcess)
    monkeypatch.setattr(sys, "argv", ["isolation", "--quick", "--json", str(file)])
    isolation.main()
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert {"p99_ratio", "p50_ratio", "failed", "always_busy", "always_busy_separate"} <= set(figures)
