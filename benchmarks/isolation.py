"""What learning costs those who ask: latency of predictions while an edge trains and aggregates, over that while not.

One edge of a fleet of three gets a fixed open-loop load: predictions, and the outcome of every one of them. It
aggregates with what it fetches from the other two, which have news each time. The named figures are of edges as they
are unless told otherwise. Others are of edges that learn and aggregate so often that the learner has no rest, with all
cores shared as by default and with ``serve.cores = "separate"``. Phases with and without learning take turns, in the
order on-off, off-on, so that neither a busy machine nor a growing journal favours one.

Without learning means: the learning process is stopped (SIGSTOP), and everything else is as it was, the outcomes that
are told and written included. An edge that nobody tells outcomes would have less to write, and its latency would be
another server's. What was told meanwhile is there when learning goes on, so that its phases have twice the work.

A virtual machine whose host takes its processors away for 10 or 20 ms has a p99 that says nothing of the server. So
there are more rounds while the host takes some (steal in /proc/stat), up to twice as many, and the requests of those
of which it took least are the ones that count. Ratios of all rounds are given beside them.
"""

import contextlib
import os
import re
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alphaedge.edge.config import load
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.edge.store.parameters import ParameterReader, ParameterVersion
from benchmarks.common import arguments, report
from benchmarks.live import FEEDBACK, INFER, Edge, bodies, cpu_seconds, fleet, stolen_seconds
from benchmarks.load import Found, Load, send

BY_DEFAULT, RESTLESS = (50, 20), (10, 10)  # outcomes that make a step of learning, steps that make an aggregation
SETTINGS = (
    ("by_default", BY_DEFAULT, "shared"),
    ("without_rest", RESTLESS, "shared"),
    ("without_rest_separate", RESTLESS, "separate"),
)
RATE, EXAMPLES = 100.0, 4  # requests a second, and examples in each
CONNECTIONS = 16
EDGES = {"berlin": "DE", "boston": "US", "beijing": "CN"}
LOOK = 0.01  # seconds between two looks whether an aggregation is done
CALM = 0.0025  # of the processors' time, that the host may take in a round which counts
AROUND = 0.1  # seconds around the end of an aggregation: it writes a checkpoint, then hands its parameters over


def aggregations(edge: Edge) -> int:
    """How many there were, by the newest checkpoint."""
    names = (re.match(r"checkpoint-[0-9a-z]+-(\d+)-", p.name) for p in (edge.folder / "data" / "checkpoints").iterdir())
    return max((int(found[1]) for found in names if found), default=0)


class Watch(threading.Thread):
    """Notes when aggregations end."""

    def __init__(self, edge: Edge) -> None:
        super().__init__(daemon=True)
        self._mark, self._over = edge.folder / "data" / "learned", threading.Event()
        self.moments: list[float] = []

    def run(self) -> None:
        """Look until told to stop."""
        last = self._mark.stat().st_mtime_ns
        while not self._over.wait(LOOK):
            with contextlib.suppress(FileNotFoundError):
                now = self._mark.stat().st_mtime_ns
                if now != last:
                    last = now
                    self.moments.append(time.monotonic())

    def stop(self) -> list[float]:
        """When they were."""
        self._over.set()
        self.join()
        return self.moments


def around(found: Found, moments: Sequence[float]) -> list[float]:
    """Latencies of the requests that were under way around one of the moments."""
    chosen = []
    for number, latency in enumerate(found.latencies):
        if latency is not None:
            start = found.began + number / RATE
            if any(start <= moment + AROUND and start + latency >= moment - AROUND for moment in moments):
                chosen.append(latency)
    return chosen


def swaps(edge: Edge, periods: int) -> tuple[float, int]:
    """What a swap adds to one prediction at most, in milliseconds, and how many there were.

    A reader such as the server's, in this process, while the learner hands one version over after the other: the time
    of this thread on a core, less that of the reading which counted. So what else the machine does is not in it.
    """
    config = load(edge.folder / "edge.toml")
    reader = ParameterReader(edge.folder / "data" / "parameters", model_schema(config, initial_model(config)))
    used = 0.0

    def use(version: ParameterVersion, _: object) -> int:
        nonlocal used
        began = time.thread_time()
        for tensor in version.tensors.values():
            if tensor.is_floating_point():
                tensor.sum()
        used = time.thread_time() - began
        return version.number

    reader.read(use)
    teaching = threading.Thread(target=edge.teach, args=(periods, 77))
    teaching.start()
    most, seen, last = 0.0, 0, reader.read(use)
    while teaching.is_alive():
        began = time.thread_time()
        number = reader.read(use)
        most = max(most, time.thread_time() - began - used)
        seen, last = seen + (number != last), number
    teaching.join()
    return 1e3 * most, seen


def percentile(found: Sequence[float], q: float) -> float:
    """In milliseconds."""
    return float(np.percentile(found, q)) * 1e3 if found else float("nan")


@dataclass(frozen=True)
class Phase:
    """What was seen while one load was sent. Latencies in seconds; busy, stolen: shares of one core and of all."""

    predictions: list[float]
    feedback: list[float]
    late: list[float]
    swapped: list[float]
    failed: int
    busy: float
    stolen: float
    batches: int
    aggregations: int
    versions: int


PERCENTILES = (
    ("predictions", "p50", 50.0),
    ("predictions", "p90", 90.0),
    ("predictions", "p99", 99.0),
    ("predictions", "largest", 100.0),
    ("feedback", "p99", 99.0),
)
Round = tuple[Phase, Phase]  # with learning, and without


def phase(edge: Edge, requests: list[str], seconds: float, *, learning: bool) -> Phase:
    """Send a load, with the learner at work or stopped."""
    learner = edge.learner
    before = edge.batches, aggregations(edge), edge.version, cpu_seconds(learner), stolen_seconds()
    watch = Watch(edge)
    watch.start()
    if not learning:
        os.kill(learner, signal.SIGSTOP)
    try:
        load = Load(
            address=edge.address,
            path=INFER,
            feedback=FEEDBACK,
            bodies=requests,
            connections=CONNECTIONS,
            seconds=seconds,
            rate=RATE,
        )
        found = send(load)
        spent, stolen = cpu_seconds(learner) - before[3], stolen_seconds() - before[4]
    finally:
        os.kill(learner, signal.SIGCONT)
    return Phase(
        predictions=[x for x in found.latencies if x is not None],
        feedback=found.feedback,
        late=found.late,
        swapped=around(found, watch.stop()),
        failed=found.failed,
        busy=spent / seconds,
        stolen=stolen / seconds / (os.cpu_count() or 1),
        batches=edge.batches - before[0],
        aggregations=aggregations(edge) - before[1],
        versions=edge.version - before[2],
    )


def measured(edges: Sequence[Edge], count: int, seconds: float) -> list[Round]:
    """Rounds until ``count`` of them were left alone by the host, at most twice as many."""
    edge, requests = edges[0], bodies(500, EXAMPLES, seed=1)
    for place, each in enumerate(edges):
        each.teach(5, seed=1000 * place)
    phase(edge, requests, seconds, learning=True)  # the first requests of a server are slow, and not counted
    rounds: list[Round] = []
    for number in range(2 * count):
        found = {}
        for learning in (True, False) if number % 2 == 0 else (False, True):
            if learning:
                for place, peer in enumerate(edges[1:]):  # something new to fetch
                    peer.teach(1, seed=100 * number + place)
            found[learning] = phase(edge, requests, seconds, learning=learning)
        rounds.append((found[True], found[False]))
        if sum(stolen(r) <= CALM for r in rounds) == count:
            break
    return rounds


def stolen(found: Round) -> float:
    """The larger share of the two phases."""
    return max(each.stolen for each in found)


def told(rounds: Sequence[Round], count: int, title: str) -> dict[str, Any]:
    """Print what was seen in rounds, ``count`` of which count; the figures."""
    calm = sorted(rounds, key=stolen)[:count]
    on, off = zip(*rounds, strict=True)

    def of(some: Sequence[Round], side: int, what: str, q: float) -> float:
        return percentile([x for each in some for x in getattr(each[side], what)], q)

    figures: dict[str, Any] = {}
    rows = []
    for what, name, q in PERCENTILES:
        key = name if what == "predictions" else f"{what}_{name}"
        learning, resting = (of(calm, side, what, q) for side in (0, 1))
        figures[f"{key}_ms_on"], figures[f"{key}_ms_off"] = learning, resting
        figures[f"{key}_ratio"] = ratio = learning / resting
        figures[f"{key}_ratio_of_all"] = of_all = of(rounds, 0, what, q) / of(rounds, 1, what, q)
        rows.append([f"{what}, {name}", f"{learning:.2f}", f"{resting:.2f}", f"{ratio:.2f}", f"{of_all:.2f}"])
    swapped = [x for each in on for x in each.swapped]
    figures |= {
        "failed": sum(each.failed for each in (*on, *off)),
        "batches_learned": sum(each.batches for each in on),
        "aggregations": sum(each.aggregations for each in on),
        "versions": sum(each.versions for each in on),
        "rounds": len(rounds),
        "rounds_that_count": count,
        "stolen_at_most": stolen(calm[-1]),
        "requests": sum(len(each.predictions) for each in (*on, *off)),
        "requests_around_aggregations": len(swapped),
        "p99_around_aggregations_ms": percentile(swapped, 99),
        "largest_around_aggregations_ms": percentile(swapped, 100),
        "generator_late_p99_ms": percentile([x for each in (*on, *off) for x in each.late], 99),
        "learner_busy_on": statistics.mean(each.busy for each in on),
        "learner_busy_off": statistics.mean(each.busy for each in off),
    }
    text = (
        f"{title}: {figures['batches_learned']} batches learned, {figures['aggregations']} aggregations, "
        f"{figures['versions']} versions, the learner at work {figures['learner_busy_on']:.0%} of the time; "
        f"{figures['failed']} failed; {count} of {len(rounds)} rounds count, of which the host took at most "
        f"{stolen(calm[-1]):.2%}"
    )
    columns = ["milliseconds", "learning", "not learning", "ratio", "ratio of all rounds"]
    report(text, columns, rows, figures, None)
    return figures


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__ or "")
    seconds, count = (2.0, 1) if args.quick else (4.0, 16)
    found: dict[str, Any] = {}
    swap_ms, swaps_seen = float("nan"), 0
    for name, (batch, every), cores in SETTINGS:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alphaedge-")))
            serve = {"port": 0, "cores": cores}
            edges = fleet(folder, EDGES, stack.enter_context, batch=batch, every=every, serve=serve)
            rounds = measured(edges, count, seconds)
            if name == "without_rest":
                swap_ms, swaps_seen = swaps(edges[0], 2 if args.quick else 30)
        load = f"{RATE:g} requests/s of {EXAMPLES} examples"
        title = f"cores {cores}, {load}, a step after {batch}, aggregation after {every}"
        figures = told(rounds, count, title)
        found |= figures if name == "by_default" else {name: figures}
    found |= {"swap_delay_ms": swap_ms, "swaps_seen": swaps_seen}
    rows = [[f"one of {swaps_seen} adds at most", f"{swap_ms:.2f}"]]
    report("swaps of parameters", ["to a prediction", "ms"], rows, found, args.json)


if __name__ == "__main__":
    main()
