"""What learning costs callers: latency of predictions while an edge learns and aggregates, over that while it does not.

One edge of a fleet of three gets a fixed open-loop load: predictions, and feedback on all of them. It aggregates with
models that it pulls from the other two, which publish each time. The headline figures are of edges with default
settings. Others are of edges that learn and aggregate so often that the learner is always busy, with all cores shared
as by default and with ``serve.cores = "separate"``. Phases with and without learning alternate, in the order on-off,
off-on, so that neither a busy machine nor a growing journal favours one.

Without learning means that the learner process is stopped (SIGSTOP); everything else is the same, including the
feedback. An edge without feedback would write less, and its latency would not be comparable. The feedback of that phase
is learned in the next one, so that the learning phases have twice the work.

On a virtual machine whose host takes the processors away for 10 or 20 ms, p99 says nothing about the server. So there
are more rounds while the host takes time (steal in /proc/stat), up to twice as many, and only the rounds with the least
steal count. Ratios of all rounds are given beside them.
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
from benchmarks.load import Load, LoadResult, send

BY_DEFAULT, BUSY = (50, 10), (10, 10)  # labels per online step, steps per aggregation
SETTINGS = (
    ("by_default", BY_DEFAULT, "shared"),
    ("always_busy", BUSY, "shared"),
    ("always_busy_separate", BUSY, "separate"),
)
RATE, EXAMPLES = 100.0, 4  # requests a second, and examples in each
CONNECTIONS = 16
EDGES = {"berlin": "DE", "boston": "US", "beijing": "CN"}
POLL_INTERVAL_SECONDS = 0.01  # between two checks for the end of an aggregation
MAX_STEAL = 0.0025  # share of the processors' time that the host may take in a round that counts
AROUND_SECONDS = 0.1  # around the end of an aggregation, which writes a checkpoint and hands parameters over


def aggregations(edge: Edge) -> int:
    """Count the aggregations, by the newest checkpoint."""
    names = (re.match(r"checkpoint-[0-9a-z]+-(\d+)-", p.name) for p in (edge.folder / "data" / "checkpoints").iterdir())
    return max((int(found[1]) for found in names if found), default=0)


class AggregationWatch(threading.Thread):
    """Records when aggregations end."""

    def __init__(self, edge: Edge) -> None:
        super().__init__(daemon=True)
        self._mark, self._over = edge.folder / "data" / "learned", threading.Event()
        self.moments: list[float] = []

    def run(self) -> None:
        """Poll until ``stop``."""
        last = self._mark.stat().st_mtime_ns
        while not self._over.wait(POLL_INTERVAL_SECONDS):
            with contextlib.suppress(FileNotFoundError):
                now = self._mark.stat().st_mtime_ns
                if now != last:
                    last = now
                    self.moments.append(time.monotonic())

    def stop(self) -> list[float]:
        """Stop; return the times of the ends of aggregations."""
        self._over.set()
        self.join()
        return self.moments


def latencies_around(result: LoadResult, moments: Sequence[float]) -> list[float]:
    """Latencies of the requests that were in flight around one of the moments."""
    chosen = []
    for number, latency in enumerate(result.latencies):
        if latency is not None:
            start = result.began + number / RATE
            if any(
                start <= moment + AROUND_SECONDS and start + latency >= moment - AROUND_SECONDS for moment in moments
            ):
                chosen.append(latency)
    return chosen


def measure_hand_overs(edge: Edge, periods: int) -> tuple[float, int]:
    """The most that a hand-over adds to one prediction, in milliseconds, and the number of hand-overs.

    A reader like the server's, in this process, reads while the learner hands over one version after the other. The
    result is the thread's processor time, less that of the last, undisturbed read, so that other work on the machine
    does not count.
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
    """A percentile of seconds, in milliseconds."""
    return float(np.percentile(found, q)) * 1e3 if found else float("nan")


@dataclass(frozen=True)
class Phase:
    """Measurements of one load. Latencies are in seconds. busy, stolen: shares of one core and of all."""

    predictions: list[float]
    feedback: list[float]
    late: list[float]
    around_aggregations: list[float]
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


def run_phase(edge: Edge, requests: list[str], seconds: float, *, learning: bool) -> Phase:
    """Send a load while the learner runs or is stopped."""
    learner = edge.learner
    before = edge.batches, aggregations(edge), edge.version, cpu_seconds(learner), stolen_seconds()
    watch = AggregationWatch(edge)
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
        result = send(load)
        spent, stolen = cpu_seconds(learner) - before[3], stolen_seconds() - before[4]
    finally:
        os.kill(learner, signal.SIGCONT)
    return Phase(
        predictions=[x for x in result.latencies if x is not None],
        feedback=result.feedback,
        late=result.late,
        around_aggregations=latencies_around(result, watch.stop()),
        failed=result.failed,
        busy=spent / seconds,
        stolen=stolen / seconds / (os.cpu_count() or 1),
        batches=edge.batches - before[0],
        aggregations=aggregations(edge) - before[1],
        versions=edge.version - before[2],
    )


def run_rounds(edges: Sequence[Edge], count: int, seconds: float, periods: int) -> list[Round]:
    """Run rounds until ``count`` of them had little steal, at most twice as many. periods: learned before them."""
    edge, requests = edges[0], bodies(500, EXAMPLES, seed=1)
    for place, each in enumerate(edges):
        each.teach(periods, seed=1000 * place)
    run_phase(edge, requests, seconds, learning=True)  # a warm-up: the first requests of a server are slow
    rounds: list[Round] = []
    for number in range(2 * count):
        found = {}
        for learning in (True, False) if number % 2 == 0 else (False, True):
            if learning:
                for place, peer in enumerate(edges[1:]):  # something new to pull
                    peer.teach(1, seed=100 * number + place)
            found[learning] = run_phase(edge, requests, seconds, learning=learning)
        rounds.append((found[True], found[False]))
        if sum(stolen(r) <= MAX_STEAL for r in rounds) == count:
            break
    return rounds


def stolen(found: Round) -> float:
    """The larger steal of the two phases."""
    return max(each.stolen for each in found)


def report_rounds(rounds: Sequence[Round], count: int, title: str) -> dict[str, Any]:
    """Print the measurements of rounds, the best ``count`` of which count; return the figures."""
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
    around = [x for each in on for x in each.around_aggregations]
    figures |= {
        "failed": sum(each.failed for each in (*on, *off)),
        "batches_learned": sum(each.batches for each in on),
        "aggregations": sum(each.aggregations for each in on),
        "versions": sum(each.versions for each in on),
        "rounds": len(rounds),
        "rounds_that_count": count,
        "stolen_at_most": stolen(calm[-1]),
        "requests": sum(len(each.predictions) for each in (*on, *off)),
        "requests_around_aggregations": len(around),
        "p99_around_aggregations_ms": percentile(around, 99),
        "largest_around_aggregations_ms": percentile(around, 100),
        "generator_late_p99_ms": percentile([x for each in (*on, *off) for x in each.late], 99),
        "learner_busy_on": statistics.mean(each.busy for each in on),
        "learner_busy_off": statistics.mean(each.busy for each in off),
    }
    text = (
        f"{title}: {figures['batches_learned']} batches learned, {figures['aggregations']} aggregations, "
        f"{figures['versions']} versions, the learner busy {figures['learner_busy_on']:.0%} of the time; "
        f"{figures['failed']} failed; {count} of {len(rounds)} rounds count, with a steal of at most "
        f"{stolen(calm[-1]):.2%}"
    )
    columns = ["milliseconds", "learning", "not learning", "ratio", "ratio of all rounds"]
    report(text, columns, rows, figures, None)
    return figures


def main() -> None:
    """Run the benchmark."""
    args = arguments(__doc__ or "")
    seconds, count = (0.5, 1) if args.quick else (4.0, 16)
    names = dict(list(EDGES.items())[:2]) if args.quick else EDGES
    found: dict[str, Any] = {}
    hand_over_ms, hand_overs = float("nan"), 0
    for name, (batch, every), cores in SETTINGS:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alphaedge-")))
            # A quick check must end on a machine whose cores are never idle, too.
            serve = {"port": 0, "cores": cores, "learner_priority": "normal" if args.quick else "idle"}
            edges = fleet(folder, names, stack.enter_context, batch=batch, every=every, serve=serve)
            rounds = run_rounds(edges, count, seconds, periods=1 if args.quick else 5)
            if name == "always_busy":
                hand_over_ms, hand_overs = measure_hand_overs(edges[0], 2 if args.quick else 30)
        load = f"{RATE:g} requests/s of {EXAMPLES} examples"
        title = f"cores {cores}, {load}, a step after {batch}, aggregation after {every}"
        figures = report_rounds(rounds, count, title)
        found |= figures if name == "by_default" else {name: figures}
    found |= {"hand_over_delay_ms": hand_over_ms, "hand_overs": hand_overs}
    rows = [[f"one of {hand_overs} adds at most", f"{hand_over_ms:.2f}"]]
    report("hand-overs of parameters", ["to a prediction", "ms"], rows, found, args.json)


if __name__ == "__main__":
    main()
