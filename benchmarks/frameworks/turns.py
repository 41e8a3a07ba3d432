"""Programs of several frameworks, ours included, that take turns at the same work, and what follows from their runs."""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from alphaedge import scoring
from benchmarks.environments import MESSAGE_LINES
from benchmarks.frameworks import BATCH
from benchmarks.frameworks.stream import Events

ROOT: Final = Path(__file__).parents[2]

Run = dict[str, Any]  # what a program prints, and "start_up_seconds"


class RunError(Exception):
    """A program ended without figures; the message is the end of what it said."""


def run(python: Path | str, program: str, *words: object) -> Run:
    """Return the figures that a program prints, and its start-up: the seconds that it does not count."""
    paths = [ROOT, ROOT / "src"] if program.startswith("alphaedge") else [ROOT]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    command = [str(python), "-m", f"benchmarks.frameworks.{program}", *map(str, words)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="alphaedge-") as folder:
        done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError("\n".join(done.stderr.strip().splitlines()[-MESSAGE_LINES:]))
    figures: Run = json.loads(done.stdout.splitlines()[-1])
    return figures | {"start_up_seconds": time.perf_counter() - began - figures["seconds"]}


def take_turns(jobs: Mapping[str, Callable[[], Run]], turns: int) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Return the runs of each job, and for those that failed the reason. Load on the machine affects all alike."""
    runs: dict[str, list[Run]] = {name: [] for name in jobs}
    failed: dict[str, str] = {}
    for _ in range(turns):
        for name, job in jobs.items():
            if name not in failed:
                try:
                    runs[name].append(job())
                except RunError as error:
                    failed[name] = str(error)
    return {name: some for name, some in runs.items() if name not in failed}, failed


def check_learned(runs: Mapping[str, Sequence[Run]], variance: float) -> None:
    """Raise an error if a simulator's predictions are no better than a constant: then its rate means nothing."""
    for name, some in runs.items():
        worst = max(one["error"] for one in some)
        if not worst < variance:
            raise RuntimeError(f"{name} has learned nothing: its error is {worst}, the variance of labels {variance}")


def score(predictions: NDArray[np.float64], stream: Events) -> dict[str, float | None]:
    """Return the AUC as ours is computed: of batches of an edge, and of all events of an edge; means over edges."""
    batches, whole = [], []
    for edge in range(int(stream.edges.max()) + 1):
        own = stream.edges == edge
        outputs, labels = torch.from_numpy(predictions[own]), torch.from_numpy(stream.labels[own])
        batches.append(float(scoring.auc(outputs.view(-1, BATCH), labels.view(-1, BATCH)).nanmean()))
        whole.append(float(scoring.auc(outputs.view(1, -1), labels.view(1, -1))))
    return {"auc": scoring.mean(batches), "edge_auc": scoring.mean(whole)}


def summary(runs: Mapping[str, Sequence[Run]], work: str) -> dict[str, dict[str, Any]]:
    """Return the medians of each program. work: what its rate counts, "edge_batches" or "examples"."""
    found: dict[str, dict[str, Any]] = {}
    for name, some in runs.items():
        rates = [one[work] / one["seconds"] for one in some]
        found[name] = {
            f"{work}_per_second": statistics.median(rates),
            f"{work}_per_cpu_second": statistics.median(one[work] / one["cpu_seconds"] for one in some),
            "rates": rates,
            "start_up_seconds": statistics.median(one["start_up_seconds"] for one in some),
            **{key: some[0][key] for key in ("cores", "auc", "edge_auc", "error") if key in some[0]},
        }
    return found


def ratios(found: Mapping[str, Mapping[str, Any]], own: Iterable[str]) -> dict[str, float]:
    """Return how many times as fast ours are as the others: the median over turns.

    >>> ratios({"noagg": {"rates": [6.0, 8.0]}, "river own": {"rates": [2.0, 4.0]}}, ["noagg"])
    {'noagg_times_river_own': 2.5}
    """
    return {
        f"{ours}_times_{name.replace(' ', '_')}": statistics.median(
            a / b for a, b in zip(found[ours]["rates"], theirs["rates"], strict=True)
        )
        for ours in own
        for name, theirs in found.items()
        if name not in own
    }
