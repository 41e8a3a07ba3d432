"""AlphaEdge on the work of the other simulators: a whole run, with everything that the method does.

``python -m benchmarks.frameworks.alphaedge_run WORK METHOD``. The first run of the process is its start-up, in which
calls are recorded; the second one is measured, from the data set to the results.
"""

import sys
from functools import partial
from pathlib import Path

import torch

from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.data.stream import Dataset, Stream
from alphaedge.settings import MethodSettings
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import Task, WorkerCache, run_task
from benchmarks.frameworks import BATCH
from benchmarks.frameworks.averaging import PERIOD, RATE, Work, answer, network
from benchmarks.frameworks.stopwatch import Stopwatch


def dataset(work: Work) -> Dataset:
    """Return the work as a data set."""
    size = work.inputs.shape[1]
    parts = (torch.split(tensor, list(work.counts)) for tensor in (work.inputs, work.labels, work.times))
    streams = tuple(Stream({"x": inputs}, labels, times) for inputs, labels, times in zip(*parts, strict=True))
    return Dataset("work", "regress", (Field("x", "number", size),), streams)


def make_model(size: int) -> Model:
    """Make the network that all frameworks train."""
    return Model(network(size), fields=["x"], loss="mse")


def measure(work: Work, method: str) -> tuple[int, Stopwatch, float]:
    """Return the edge-batches, time and mean squared error of a whole run, the second one in this process."""
    period = MethodSettings(aggregate_every=PERIOD)
    settings = Settings(data="airquality", batch_size=BATCH, rate=RATE, methods=(method,), method=period).resolved()
    chosen = settings.method.apply(method)
    model = partial(make_model, work.inputs.shape[1])
    task = Task(settings, method, chosen, (0,), dataset(work), model)
    cache, watch = WorkerCache(), Stopwatch()
    run_task(task, cache)
    watch.start()
    (run,), _ = run_task(task, cache)
    watch.stop()
    error = run.mean(run.losses)
    assert error is not None
    return run.edge_batches, watch, error


def main() -> None:
    """Measure and answer."""
    torch.set_num_threads(1)
    file, method = sys.argv[1:]
    edge_batches, watch, error = measure(Work.load(Path(file)), method)
    answer(edge_batches, watch, 1, error)


if __name__ == "__main__":
    main()
