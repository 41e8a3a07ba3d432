"""What benchmarks share: models and data of typical shapes, timing, output."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.core.state import ModelState
from alphaedge.data.stream import Dataset, Stream
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.simulation.batches import Batches, Inputs, Labels
from alphaedge.simulation.conditions import Conditions

BATCH = 50


def mlp_shape(edges: int, batches: int) -> tuple[Dataset, Model]:
    """Make a regression like air quality: 60 numbers, hidden layers of 64 and 32 units."""
    fields = (Field("x", "number", 60),)
    return _data(fields, edges, batches, "regress"), mlp(fields, loss="mse")


def deepfm_shape(edges: int, batches: int) -> tuple[Dataset, Model]:
    """Make a DeepFM like MovieLens: 6,040 users, each on one edge, 3,931 items, embeddings of size 16."""
    fields = (
        Field("user", "id", 6040),
        Field("item", "id", 3931),
        Field("occupation", "code", 21),
        Field("age", "code", 7),
        Field("numbers", "number", 4),
    )
    return _data(fields, edges, batches, "classify"), deepfm(fields, dim=16)


def _data(fields: tuple[Field, ...], edges: int, batches: int, task: Any) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    count = batches * BATCH

    def values(field: Field, edge: int) -> torch.Tensor:
        if field.kind == "number":
            return torch.randn(count, field.size, generator=generator)
        if field.name == "user":
            own = field.size // edges
            return torch.randint(own, (count,), generator=generator) + edge * own
        # Small ids are popular, as in real catalogues.
        return (torch.rand(count, generator=generator) ** 2 * field.size).long()

    streams = tuple(
        Stream(
            {f.name: values(f, edge) for f in fields},
            torch.randint(0, 2, (count,), generator=generator).float(),
            torch.arange(count, dtype=torch.float64),
        )
        for edge in range(edges)
    )
    return Dataset("benchmark", task, fields, streams)


def prepare(data: Dataset, model: Model, size: int = BATCH) -> tuple[Batches, ModelState]:
    """Cut the data into batches, and make the initial state of all edges."""
    inputs = Inputs.cut(data, model, size)
    labels = Labels.draw(data, size, Conditions(), 0, model.dtype)
    batches = Batches([inputs], [labels])
    return batches, ModelState.start([model], [0] * len(data.streams), rows=[own.named for own in batches.own_rows])


def time_in_turn(jobs: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each job in each round. Jobs take turns, so that load on the machine affects them all."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for name in jobs:
        jobs[name]()
    for _ in range(rounds):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def median_ratio(slow: list[float], fast: list[float], scale: float = 1.0) -> float:
    """Return the median over rounds of slow / fast, times ``scale``."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True)) * scale


def report(
    title: str, columns: list[str], rows: list[list[str]], figures: dict[str, Any], json_file: Path | None
) -> None:
    """Print a table, and write the figures as JSON if a file is given."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def arguments(description: str, **extra: Any) -> argparse.Namespace:
    """Parse ``--json FILE``, ``--quick`` and the options in ``extra``; set torch to one thread."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="run only a few rounds, as a check")
    for name, options in extra.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()
