"""Checkpoints: a run that was killed goes on as if nothing had happened, whatever the method and the conditions."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from alphaedge import Conditions, InvalidValue, MethodSettings, Results, simulate
from alphaedge.cli import app
from alphaedge.core.methods import METHODS
from alphaedge.simulation.run_log import Progress

from .fleets import shop

SHARED: dict[str, Any] = {"store": shop(edges=4, events=300), "batch_size": 10, "seeds": 2}
SHORT = MethodSettings(aggregate_every=5)


class Killed(Exception):
    """What stands for the death of the process in these tests; one of them kills a real one."""


def die_at(folder: Path, share: float, **settings: Any) -> None:
    """Simulate with a checkpoint after every step, and die at that share of the run."""

    def die(name: str, progress: Progress) -> None:
        if name and progress.batches >= share * progress.total:
            raise Killed

    with pytest.raises(Killed):
        simulate(checkpoints=folder, checkpoint_every=0.0, watch=die, **settings)
    assert list(folder.glob("*.pt"))


def interrupted(folder: Path, share: float, **settings: Any) -> Results:
    """Die at that share of a run, and go on."""
    die_at(folder, share, **settings)
    seen: list[int] = []
    found = simulate(checkpoints=folder, watch=lambda n, p: seen.append(p.batches) if n else None, **settings)
    assert seen[0] >= share * 0.5 * max(seen), "it went on, and did not start anew"
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_died_goes_on_with_the_same_numbers(tmp_path: Path, method: str) -> None:
    settings = SHARED | {"methods": [method], "method": SHORT}
    whole, found = simulate(**settings), interrupted(tmp_path, 0.6, **settings)
    assert found.scores.equals(whole.scores)
    assert found.weights.equals(whole.weights)
    assert found.pulls.equals(whole.pulls)


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(delay=3, staleness=1, drop=0.3),
        Conditions(adversaries=0.5, attack="replayed-models"),
        Conditions(joins={1: 0.4}, leaves={2: 0.7}),
    ],
    ids=["late", "hostile", "churn"],
)
def test_so_it_does_under_all_conditions(tmp_path: Path, conditions: Conditions) -> None:
    settings = SHARED | {"methods": ["alphaedge"], "method": SHORT, "conditions": conditions}
    whole, found = simulate(**settings), interrupted(tmp_path, 0.5, **settings)
    assert found.scores.equals(whole.scores)
    assert found.pulls.equals(whole.pulls)


def test_so_it_does_when_publications_are_compressed(tmp_path: Path) -> None:
    method = MethodSettings(aggregate_every=5, precision="int8", min_change=0.2)
    settings = SHARED | {"methods": ["alphaedge"], "method": method}
    whole, found = simulate(**settings), interrupted(tmp_path, 0.6, **settings)
    assert found.scores.equals(whole.scores)
    assert found.pulls.equals(whole.pulls)


def test_a_checkpoint_of_another_simulation_is_refused(tmp_path: Path) -> None:
    settings = SHARED | {"methods": ["fedweight"], "method": SHORT}
    die_at(tmp_path, 0.5, **settings)
    with pytest.raises(InvalidValue, match="one of the same simulation"):
        simulate(checkpoints=tmp_path, **settings | {"rate": 0.5})


def test_a_checkpoint_of_other_methods_or_seeds_is_not_passed_over(tmp_path: Path) -> None:
    settings = SHARED | {"methods": ["fedweight"], "method": SHORT}
    die_at(tmp_path, 0.5, **settings)
    with pytest.raises(InvalidValue, match="the same methods, seeds and number of jobs"):
        simulate(checkpoints=tmp_path, **settings | {"seeds": 1})


def test_a_run_that_is_finished_is_not_run_again(tmp_path: Path) -> None:
    settings = SHARED | {"methods": ["fedweight"], "method": SHORT}
    whole = simulate(checkpoints=tmp_path, checkpoint_every=0.0, **settings)
    seen: list[str] = []
    again = simulate(checkpoints=tmp_path, watch=lambda name, _: seen.append(name) if name else None, **settings)
    assert again.scores.equals(whole.scores)
    assert not seen


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    settings = SHARED | {"methods": ["fedweight"], "method": SHORT}
    die_at(tmp_path, 0.5, **settings)
    (file,) = tmp_path.glob("*.pt")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InvalidValue, match="a file that can be read"):
        simulate(checkpoints=tmp_path, **settings)


def test_the_command_goes_on_after_kill_9(tmp_path: Path) -> None:
    """The first time it kills itself when a checkpoint is there."""
    command = ["simulate", "--edges", "3", "--events", "200", "--batch-size", "10", "--methods", "alphaedge"]
    command += ["--aggregate-every", "5", "--jobs", "1", "--checkpoint-every", "0s"]
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom alphaedge.simulation import task\nreal = task.save\n"
        "def save(*args):\n    real(*args)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "task.save = save\nfrom alphaedge.cli import app\napp(sys.argv[1:])"
    )
    out, whole = tmp_path / "out", tmp_path / "whole"
    killed = subprocess.run([sys.executable, "-c", code, *command, "--out", str(out)], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert list((out / "checkpoints").glob("*.pt"))

    def run(*args: str) -> Result:
        return CliRunner().invoke(app, [*command, *args])

    refused = run("--out", str(out))
    assert refused.exit_code == 2
    assert "--resume to go on" in refused.output
    assert run("--out", str(out), "--resume").exit_code == 0
    assert run("--out", str(whole)).exit_code == 0
    assert (out / "scores.parquet").read_bytes() == (whole / "scores.parquet").read_bytes()
    assert not (out / "checkpoints").exists(), "the results are on disk"
