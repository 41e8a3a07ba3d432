"""What learning costs those who ask: latency of predictions while an edge trains and aggregates, over that while not.

One edge of a fleet of three gets a fixed open-loop load: predictions, and the outcome of every one of them. It
aggregates every few batches with what it fetches from the other two, which have news each time. Phases with and without
learning take turns, in the order on-off, off-on, so that neither a busy machine nor a growing journal favours one.

Without learning means: the learning process is stopped (SIGSTOP), and everything else is as it was, the outcomes that
are told and written included. An edge that nobody tells outcomes would have less to write, and its latency would be
another server's. What was told meanwhile is there when learning goes on, so that the learner has no rest in its phases.

The named ratios are medians over the rounds, each round's of its own two phases: what else the machine does for a while
then spoils a round or two and not the figure. Ratios of the percentiles of all requests together are given beside them.
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
from pathlib import Path
from typing import Any

import numpy as np

from alphaedge.edge.config import load
from alphaedge.edge.learning import schema, seeded
from alphaedge.edge.parameters import Reader, Version
from benchmarks.common import arguments, median_ratio, report
from benchmarks.live import FEEDBACK, INFER, Edge, bodies, cpu_seconds, fleet
from benchmarks.load import Found, Load, send

BATCH, EVERY = 10, 10  # a step of learning after 10 outcomes, an aggregation after 10 steps
RATE, EXAMPLES = 100.0, 4  # requests a second, and examples in each
CONNECTIONS = 16
EDGES = {"berlin": "DE", "boston": "US", "beijing": "CN"}
LOOK = 0.01  # seconds between two looks whether an aggregation is done
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
    reader = Reader(edge.folder / "data" / "parameters", schema(config, seeded(config)))
    used = 0.0

    def use(version: Version, _: object) -> int:
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


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__ or "")
    seconds, rounds = (2.0, 2) if args.quick else (4.0, 10)
    requests = bodies(500, EXAMPLES, seed=1)
    latencies: dict[bool, list[float]] = {True: [], False: []}
    told: dict[bool, list[float]] = {True: [], False: []}
    busy: dict[bool, list[float]] = {True: [], False: []}
    by_phase: dict[bool, list[list[float]]] = {True: [], False: []}
    late: list[float] = []
    swapped: list[float] = []
    failed = batches = mixed = versions = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="alphaedge-")))
        edges = fleet(folder, EDGES, stack.enter_context, batch=BATCH, every=EVERY)
        edge, peers = edges[0], edges[1:]
        for number, each in enumerate(edges):
            each.teach(5, seed=1000 * number)

        def phase(learning: bool) -> None:
            nonlocal failed, batches, mixed, versions
            learner = edge.learner
            before = edge.batches, aggregations(edge), edge.version, cpu_seconds(learner)
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
                spent = cpu_seconds(learner) - before[3]
            finally:
                os.kill(learner, signal.SIGCONT)
            good = [x for x in found.latencies if x is not None]
            latencies[learning] += good
            told[learning] += found.feedback
            late.extend(found.late)
            busy[learning].append(spent / seconds)
            by_phase[learning].append(good)
            failed += found.failed
            moments = watch.stop()
            if learning:
                swapped.extend(around(found, moments))
                batches += edge.batches - before[0]
                mixed += aggregations(edge) - before[1]
                versions += edge.version - before[2]

        phase(True)  # the first requests of a server are slow; they are sent, and not counted
        for some in (latencies, told, busy):
            some[True].clear()
        by_phase[True].clear()
        late, swapped, failed, batches, mixed, versions = [], [], 0, 0, 0, 0
        for number in range(rounds):
            for learning in (True, False) if number % 2 == 0 else (False, True):
                if learning:
                    for place, peer in enumerate(peers):  # something new to fetch
                        peer.teach(1, seed=100 * number + place)
                phase(learning)
        swap_ms, swaps_seen = swaps(edge, 2 if args.quick else 30)
    figures: dict[str, Any] = {"swap_delay_ms": swap_ms, "swaps_seen": swaps_seen}
    rows = []
    for name, q in (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("largest", 100.0)):
        on, off = (percentile(latencies[learning], q) for learning in (True, False))
        phases = {learning: [percentile(good, q) for good in by_phase[learning]] for learning in (True, False)}
        figures[f"{name}_ratio"] = ratio = median_ratio(phases[True], phases[False])
        figures[f"{name}_ratio_of_all"], figures[f"{name}_on_ms"], figures[f"{name}_off_ms"] = on / off, on, off
        rows.append([f"predict, {name}", f"{on:.2f}", f"{off:.2f}", f"{on / off:.2f}", f"{ratio:.2f}"])
    on, off = (percentile(told[learning], 99) for learning in (True, False))
    rows.append(["feedback, p99", f"{on:.2f}", f"{off:.2f}", f"{on / off:.2f}", ""])
    figures |= {
        "feedback_p99_ratio_of_all": on / off,
        "failed": failed,
        "requests_on": len(latencies[True]),
        "requests_off": len(latencies[False]),
        "p99_ms_of_phases_on": [percentile(good, 99) for good in by_phase[True]],
        "p99_ms_of_phases_off": [percentile(good, 99) for good in by_phase[False]],
        "requests_around_aggregations": len(swapped),
        "p99_around_aggregations_ms": percentile(swapped, 99),
        "largest_around_aggregations_ms": percentile(swapped, 100),
        "generator_late_p99_ms": percentile(late, 99),
        "learner_busy_on": statistics.mean(busy[True]),
        "learner_busy_off": statistics.mean(busy[False]),
        "batches_learned": batches,
        "aggregations": mixed,
        "versions": versions,
    }
    rows.append([f"a swap adds at most ({swaps_seen} seen)", f"{swap_ms:.2f}", "", "", ""])
    title = (
        f"latency in ms at {RATE:g} requests/s of {EXAMPLES} examples and their outcomes; meanwhile {batches} batches "
        f"learned, {mixed} aggregations, {versions} versions; {failed} failed"
    )
    report(title, ["", "learning", "not learning", "ratio of all", "median ratio"], rows, figures, args.json)


if __name__ == "__main__":
    main()
