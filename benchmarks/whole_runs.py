"""Whole simulations from the start of a process to their results, beside the bare engine and a plain loop.

For each data set and method, in a process of its own: the warm-up after imports (what the first run of a process takes
longer than a later one) with an empty cache of recorded calls and with a full one; the rate of the better of two later
runs, and that rate as a multiple of a plain loop over ``nn.Module``s and as a share of the engine's rate. The engine's
rate is given as a multiple of the plain loop and as a share of the machine's limit. The limit is what one edge-batch
must take at least: its multiplications at the rate of a large matrix product, plus the traffic of parameters and
moments at the rate of a large copy. All are measured in the same process.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.flop_counter import FlopCounterMode

from alphaedge.core.gradients import Stacked
from alphaedge.core.model import Model
from alphaedge.data.stream import Dataset
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import Task, WorkerCache, make_model, run_task
from benchmarks.common import arguments, prepare, report
from benchmarks.engine import engine, plain_loop

DATA_SETS: Final[dict[str, int | None]] = {"airquality": None, "movielens": 250_000, "synthetic": None}
METHODS: Final = ("noagg", "fedweight", "alphaedge")
STEPS: Final = 20
QUICK_ROWS: Final = 24_000


def measure(data: str, method: str, rows: int | None) -> dict[str, float]:
    """Run one method on one data set three times, and what it is compared with. For a new process."""
    torch.set_num_threads(1)
    settings = Settings(data=data, rows=rows, methods=(method,)).resolved()
    cache = WorkerCache()
    events = cache.data(settings, 0)
    task = Task(settings, method, settings.method.apply(method), (0,), None, None)
    seconds, batches = [], 0
    for _ in range(3):
        began = time.perf_counter()
        (run,), _ = run_task(task, cache)
        seconds.append(time.perf_counter() - began)
        batches = run.edge_batches
    steady = min(seconds[1:])
    found = {"warm_up": seconds[0] - steady, "rate": batches / steady}
    model = make_model(task.factory(events), 0)
    lazy = settings.row_optimizer != "dense"
    steps = min(STEPS, min(len(s) // settings.size for s in events.streams))
    jobs = {
        "loop": plain_loop(events, model, steps, settings.size),
        "engine": engine(events, model, "lazy" if lazy else "dense", steps, settings.size),
    }
    for name, job in jobs.items():
        found[name] = steps * len(events.streams) / _fastest(job, 3)
    return found | {"limit": 1 / _least_seconds(events, model, settings.size)}


def _least_seconds(data: Dataset, model: Model, size: int) -> float:
    """The time that one edge-batch must take on this machine."""
    batches, state = prepare(data, model, size)
    first = torch.tensor([0])
    part, batch = state.select(first), batches.get(first, torch.tensor([0]))
    rows = [t.gather(t.flat(r)) for t, r in zip(part.tables, batch.rows, strict=True)]
    with FlopCounterMode(display=False) as counter:
        Stacked(model, trace=False).gradient(part.dense, rows, part.buffers, batch.inputs, batch.labels)
    numbers = part.dense.numel() + sum(r.numel() for r in rows)
    traffic = 7 * numbers * part.dense.element_size()  # Adam reads values, gradients and two moments, and writes three
    side, long = 1024, 1 << 24
    a, b, x, y = torch.randn(side, side), torch.randn(side, side), torch.randn(long), torch.empty(long)
    per_flop = _fastest(lambda: torch.mm(a, b), 5) / (2 * side**3)
    per_byte = _fastest(lambda: y.copy_(x), 5) / (2 * long * x.element_size())
    return float(counter.get_total_flops()) * per_flop + traffic * per_byte


def _fastest(job: Callable[[], object], times: int) -> float:
    job()
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def in_new_process(data: str, method: str, rows: int | None, cache: str) -> dict[str, float]:
    """What ``measure`` finds in a process whose cache of recorded calls is in that folder."""
    code = "import json; from benchmarks.whole_runs import measure; print(json.dumps(measure(*json.loads(input()))))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XDG_CACHE_HOME": cache},
        input=json.dumps([data, method, rows]).encode(),
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", data={"help": "one data set only", "choices": list(DATA_SETS)})
    figures: dict[str, dict[str, Any]] = {}
    table = []
    names = [args.data] if args.data else (["synthetic"] if args.quick else list(DATA_SETS))
    for data in names:
        figures[data] = {}
        for method in METHODS:
            with tempfile.TemporaryDirectory(prefix="alphaedge-") as cache:
                _share_downloads(Path(cache))
                rows = QUICK_ROWS if args.quick else DATA_SETS[data]
                cold, warm = (in_new_process(data, method, rows, cache) for _ in range(2))
            rate, loop, whole, limit = (
                statistics.mean((cold[k], warm[k])) for k in ("rate", "loop", "engine", "limit")
            )
            figures[data][method] = {
                "edge_batches_per_second": rate,
                "times_plain_loop": rate / loop,
                "share_of_engine": rate / whole,
                "engine_times_plain_loop": whole / loop,
                "engine_share_of_limit": whole / limit,
                "warm_up_seconds": warm["warm_up"],
                "warm_up_seconds_empty_cache": cold["warm_up"],
            }
            own = figures[data][method]
            table.append(
                [
                    f"{data}, {method}",
                    f"{rate:,.0f}",
                    f"{own['times_plain_loop']:.1f}",
                    f"{own['share_of_engine']:.2f}",
                    f"{own['engine_times_plain_loop']:.1f}",
                    f"{own['engine_share_of_limit']:.2f}",
                    f"{own['warm_up_seconds']:.1f}",
                    f"{own['warm_up_seconds_empty_cache']:.1f}",
                ]
            )
            sys.stderr.write(" | ".join(table[-1]) + "\n")  # all rows take some ten minutes
    columns = ["whole run", "eb/s", "x loop", "of engine", "engine x loop", "engine of limit", "warm-up, s", "empty"]
    report("edge-batches per second of whole runs (eb/s)", columns, table, figures, args.json)


def _share_downloads(cache: Path) -> None:
    """Let a new cache have the data sets of the user's own."""
    from alphaedge.data.archive import cache_folder

    (cache / "alphaedge").mkdir()
    for archive in cache_folder().glob("*.zip"):
        (cache / "alphaedge" / archive.name).symlink_to(archive)


if __name__ == "__main__":
    main()
