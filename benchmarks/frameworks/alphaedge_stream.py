"""AlphaEdge on the stream of the online learners: a whole run, in batches of 50.

``python -m benchmarks.frameworks.alphaedge_stream DATA ROWS METHOD``. The first run of the process is its start-up, in
which calls are recorded; the second one is measured, from the data set to the results.
"""

import dataclasses
import json
import sys
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from alphaedge.data.stream import Dataset, Stream
from alphaedge.simulation.config import Settings
from alphaedge.simulation.task import Task, WorkerCache, make_data, run_task
from benchmarks.frameworks.stopwatch import Stopwatch
from benchmarks.frameworks.stream import Events

# For linear models; chosen on the first events of MovieLens (vowpalwabbit_run).
CROSSED = {
    "movielens": (
        ("user", "genres"),
        ("movie", "gender"),
        ("movie", "age"),
        ("movie", "occupation"),
        ("movie", "genres"),
    )
}


def dataset(name: str, rows: int, batch: int) -> Dataset:
    """Return the events after the first quarter that fill whole batches, with their labels as they are."""
    data = make_data(Settings(data=name, rows=rows).resolved(), 0)

    def whole(stream: Stream) -> Stream:
        count = len(stream) // batch * batch
        inputs = {field: values[:count] for field, values in stream.inputs.items()}
        return Stream(inputs, stream.labels[:count], stream.times[:count])

    return dataclasses.replace(data, streams=tuple(map(whole, data.streams)), noise={})


def events(data: Dataset) -> Events:
    """Return a data set as one stream in the order of time. Numbers are standardised, as our models do on the way."""
    order = torch.cat([s.times for s in data.streams]).argsort(stable=True)
    fields: dict[str, NDArray[np.generic]] = {}
    for field in data.fields:
        values = torch.cat([s.inputs[field.name] for s in data.streams])[order]
        if field.kind == "number":
            values = (values - values.mean(0)) / values.std(0).clamp(min=1e-6)
        fields[field.name] = values.numpy()
    edges = torch.cat([torch.full((len(s),), edge) for edge, s in enumerate(data.streams)])[order]
    labels = torch.cat([s.labels for s in data.streams])[order].long()
    return Events(fields, labels.numpy(), edges.numpy(), CROSSED.get(data.name, ()))


def measure(name: str, rows: int, method: str) -> dict[str, float | None]:
    """Return the figures of a whole run, the second one in this process."""
    settings = Settings(data=name, methods=(method,)).resolved()
    data = dataset(name, rows, settings.size)
    task = Task(settings, method, settings.method.apply(method), (0,), data, partial(settings.base.make, data))
    cache, watch = WorkerCache(), Stopwatch()
    run_task(task, cache)
    watch.start()
    (run,), _ = run_task(task, cache)
    watch.stop()
    scores = {"auc": run.mean(run.per_edge), "edge_auc": run.mean(run.pooled)}
    return {"examples": run.edge_batches * settings.size, **vars(watch), "cores": 1, **scores}


def main() -> None:
    """Measure and answer."""
    torch.set_num_threads(1)
    name, rows, method = sys.argv[1:]
    print(json.dumps(measure(name, int(rows), method)))


if __name__ == "__main__":
    main()
