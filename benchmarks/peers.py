"""AlphaEdge beside other frameworks on the same work, each in an environment of its own, taking turns.

Simulators: 35 edges with the shape of AirQuality (its data where they are on this machine, otherwise random numbers),
the layers of the catalog's MLP over standardised inputs, batches of 50, Adam at 0.01, and an average of models every 20
batches. Ours are whole runs, from the data set to the results, in one process: FedWeight averages by records,
AlphaEdge has everything on (learned weights, trial, selection, home model), and both predict and score every batch
first. The others average plainly and score nothing. Each runs as it is fastest; its program in
``benchmarks/frameworks`` says how. An edge-batch is one step of one edge on one batch of 50.

Online learners: the same MovieLens events one by one, predicted and then learned, with a model for each edge (own) or
one for all (pooled); river also in batches of 50, as ours do. AUC is the mean over batches of 50 of an edge, then over
edges; the other one is that of all events of an edge, then the mean over edges.

The columns with an x say how many times as fast as a framework ours is, as the median over turns. Rates are also given
per second of processor time, which depends less on what else the machine does.

Every program is a new process each time, and its start-up (imports, environment, first round or first run) is given
apart from its rate. Rates are medians over turns. Environments are made on first use with pip, with pinned versions.
With ``--quick`` only those that exist already take part, and all data are made up. Where a framework does not install
or does not run, the table says why. For MLServer see ``benchmarks.serving``.
"""

import dataclasses
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import torch

from alphaedge.data import airquality, movielens
from alphaedge.data.archive import cache_folder, find
from alphaedge.report import charts
from alphaedge.report.styles import STYLES
from benchmarks import environments
from benchmarks.common import arguments, report
from benchmarks.frameworks import BATCH
from benchmarks.frameworks.alphaedge_stream import dataset, events
from benchmarks.frameworks.averaging import PERIOD, Work
from benchmarks.frameworks.picture import NAMES, draw
from benchmarks.frameworks.stream import Events
from benchmarks.frameworks.turns import Run, check_learned, ratios, run, score, summary, take_turns

EDGES: Final = 35
TORCH: Final = "torch==2.13.0"
SIMULATORS: Final[Mapping[str, tuple[str, ...]]] = {
    "flower": ("flwr[simulation]==1.41.0", TORCH),
    "gossipy": ("gossipy-dfl==0.0.1", "torchvision==0.28.0", TORCH),
    "fluke": ("fluke-fl==0.8.1", TORCH),
}
LEARNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "river": ("river==0.26.1", "numpy==2.4.6"),
    "vowpalwabbit": ("vowpalwabbit==9.11.9", "numpy==2.4.6"),
}
MODES: Final = {"river": ("own", "batches", "pooled"), "vowpalwabbit": ("own", "pooled")}
OWN_SIMULATIONS: Final = ("fedweight", "alphaedge")
OWN_LEARNERS: Final = ("noagg", "alphaedge")


@final
@dataclass(frozen=True)
class Sizes:
    """How much is done.

    turns, stream_turns: how often each program runs. batches: of each edge, where data are made up. rounds: of the
    simulators. data, events: the stream.
    """

    turns: int
    stream_turns: int
    batches: int
    rounds: int
    data: str
    events: int


FULL: Final = Sizes(turns=5, stream_turns=3, batches=220, rounds=8, data="movielens", events=250_000)
QUICK: Final = Sizes(turns=1, stream_turns=1, batches=40, rounds=1, data="synthetic", events=4_000)


def random_work(edges: int, batches: int) -> Work:
    """Make up work of AirQuality's shape, whose labels follow from the inputs."""
    generator = torch.Generator().manual_seed(0)
    size, count = len(airquality.PAST) + len(airquality.NOW), batches * BATCH
    inputs = torch.randn(edges * count, size, generator=generator)
    labels = inputs @ torch.randn(size, generator=generator) / size**0.5
    return Work(inputs, labels, torch.arange(count).double().repeat(edges), [count] * edges)


def airquality_work() -> Work:
    """Return the work that AirQuality gives: standardised inputs, labels in typical values, whole batches."""
    data = airquality.load()
    counts = [len(stream) // BATCH * BATCH for stream in data.streams]
    pairs = list(zip(data.streams, counts, strict=True))
    inputs = torch.cat([torch.cat([s.inputs[f.name][:n] for f in data.fields], dim=1) for s, n in pairs])
    inputs = (inputs - inputs.mean(0)) / inputs.std(0).clamp(min=1e-6)
    labels = torch.cat([s.labels[:n] for s, n in pairs]) / data.label_scale
    return Work(inputs, labels, torch.cat([s.times[:n] for s, n in pairs]), counts)


def set_up(
    frameworks: Mapping[str, Sequence[str]], folder: Path, *, install: bool
) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the Python of each framework, and for those without one the reason."""
    found: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name, packages in frameworks.items():
        try:
            python = environments.make(folder / name, packages) if install else None
            python = python or environments.find(folder / name, packages)
        except (environments.SetUpError, OSError) as error:
            missing[name] = str(error)
        else:
            if python is None:
                missing[name] = "not installed; run without --quick"
            else:
                found[name] = python
    return found, missing


def simulations(pythons: Mapping[str, Path], file: Path, rounds: int) -> dict[str, Callable[[], Run]]:
    """Return the jobs of the simulators, ours first."""
    own = {method: partial(run, sys.executable, "alphaedge_run", file, method) for method in OWN_SIMULATIONS}
    others = {name: partial(run, pythons[name], f"{name}_run", file, rounds) for name in SIMULATORS if name in pythons}
    return {**own, **others}


def lessons(pythons: Mapping[str, Path], stream: Events, folder: Path, sizes: Sizes) -> dict[str, Callable[[], Run]]:
    """Return the jobs of the online learners, ours first."""
    file, output = folder / "events.npz", folder / "predictions.npy"
    stream.save(file)

    def job(name: str, mode: str) -> Run:
        found = run(pythons[name], f"{name}_run", file, mode, output)
        return found | score(np.load(output), stream)

    own = {
        method: partial(run, sys.executable, "alphaedge_stream", sizes.data, sizes.events, method)
        for method in OWN_LEARNERS
    }
    return {**own, **{f"{n} {mode}": partial(job, n, mode) for n in LEARNERS if n in pythons for mode in MODES[n]}}


def measure(sizes: Sizes, environments_folder: Path, *, real: bool, install: bool) -> dict[str, Any]:
    """Return all figures. real: whether the simulators work on AirQuality. install: whether to make environments."""
    load = os.getloadavg()[1]
    pythons, missing = set_up({**SIMULATORS, **LEARNERS}, environments_folder, install=install)
    work = airquality_work() if real else random_work(EDGES, sizes.batches)
    stream = events(dataset(sizes.data, sizes.events, BATCH))
    with tempfile.TemporaryDirectory(prefix="alphaedge-") as folder:
        file = Path(folder) / "work.npz"
        work.save(file)
        simulated, failed = take_turns(simulations(pythons, file, sizes.rounds), sizes.turns)
        learned, failed_too = take_turns(lessons(pythons, stream, Path(folder), sizes), sizes.stream_turns)
    failed |= failed_too
    if broken := [f"{method}: {failed[method]}" for method in (*OWN_SIMULATIONS, *OWN_LEARNERS) if method in failed]:
        raise RuntimeError("\n".join(broken))
    missing |= failed
    check_learned(simulated, float(work.labels.var()))
    simulators, learners = summary(simulated, "edge_batches"), summary(learned, "examples")
    return {
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": [load, os.getloadavg()[1]],  # of the last five minutes, before and after
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{n: environments.versions(p, {**SIMULATORS, **LEARNERS}[n]) for n, p in pythons.items()},
        },
        "simulation_data": "AirQuality" if real else "random numbers of AirQuality's shape",
        "stream_data": sizes.data,
        "stream_examples": len(stream.labels),
        "missing": missing,
        "simulators": simulators,
        "learners": learners,
        **ratios(simulators, OWN_SIMULATIONS),
        **ratios(learners, OWN_LEARNERS),
    }


def rows(figures: Mapping[str, Any], kind: str) -> list[list[str]]:
    """Return the lines of a table. kind: "simulators" or "learners"."""
    own, work, others = (
        (OWN_SIMULATIONS, "edge_batches", SIMULATORS) if kind == "simulators" else (OWN_LEARNERS, "examples", LEARNERS)
    )
    lines = []
    for name, found in figures[kind].items():
        times = [figures.get(f"{ours}_times_{name.replace(' ', '_')}") for ours in own]
        scores = [f"{found['auc']:.4f}", f"{found['edge_auc']:.4f}"] if kind == "learners" else []
        lines.append(
            [NAMES[name]]
            + [f"{found[f'{work}_per_{unit}']:,.0f}" for unit in ("second", "cpu_second")]
            + [str(found["cores"]), f"{found['start_up_seconds']:.1f}"]
            + scores
            + ["" if one is None else f"{one:.2f}" for one in times]
        )
    width = len(lines[0])
    gone = [f"{name}: {figures['missing'][name]}" for name in figures["missing"] if name.split()[0] in others]
    return lines + [[text] + [""] * (width - 1) for text in gone]


def main() -> None:
    """Measure and report."""
    args = arguments(
        __doc__ or "",
        envs={"type": Path, "default": cache_folder() / "peers", "metavar": "DIR", "help": "the environments"},
        picture={"type": Path, "metavar": "FILE", "help": "draw the figures, as PNG or SVG"},
    )
    sizes = QUICK if args.quick else FULL
    if find(movielens.ARCHIVE) is None:
        sizes = dataclasses.replace(sizes, data="synthetic")
    real = not args.quick and find(airquality.ARCHIVE) is not None
    figures = measure(sizes, args.envs, real=real, install=not args.quick)
    title = f"{EDGES} edges, {figures['simulation_data']}, an average every {PERIOD} batches (eb: edge-batches)"
    columns = [
        "framework",
        "eb/s",
        "per CPU s",
        "cores",
        "start-up, s",
        *(f"{STYLES[m].name} x" for m in OWN_SIMULATIONS),
    ]
    report(title, columns, rows(figures, "simulators"), figures, None)
    title = f"{figures['stream_examples']:,} events of {figures['stream_data']}, predicted, then learned"
    scores = ["AUC", "AUC, whole"]
    columns = [
        "framework",
        "events/s",
        "per CPU s",
        "cores",
        "start-up, s",
        *scores,
        *(f"{STYLES[m].name} x" for m in OWN_LEARNERS),
    ]
    report(title, columns, rows(figures, "learners"), figures, args.json)
    if args.picture:
        charts.save(draw(figures), args.picture)


if __name__ == "__main__":
    main()
