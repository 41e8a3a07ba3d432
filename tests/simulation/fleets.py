"""Small fleets to run tests on, and a look at the worlds behind their results."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from alphaedge import Dataset, Field, IdTable, Model, Results, Store, Stream, simulate, synthetic
from alphaedge.core.model import Loss
from alphaedge.simulation.world import World


class Seen(NamedTuple):
    """Results, with the worlds that they were cut from: one for each task, in the order in which they ran."""

    results: Results
    worlds: list[World]

    @property
    def world(self) -> World:
        assert len(self.worlds) == 1
        return self.worlds[0]


def seen(**settings: Any) -> Seen:
    """``simulate`` in this process, keeping the worlds."""
    worlds: list[World] = []

    def make(**parts: Any) -> World:
        worlds.append(World(**parts))
        return worlds[-1]

    with mock.patch("alphaedge.simulation.task.World", make):
        return Seen(simulate(**settings), worlds)


def shop(**changes: Any) -> Store:
    """A synthetic store that takes no time."""
    return Store(**{"edges": 3, "clusters": 2, "events": 400, "items": 20, "users": 10, "categories": 4} | changes)


def shop_data(**changes: Any) -> Dataset:
    return synthetic(shop(**changes))


def measured(
    edges: int = 3,
    batches: int | Sequence[int] = 20,
    size: int = 5,
    *,
    task: str = "regress",
    seed: int = 0,
    times: Callable[[int, int], Tensor] | None = None,
) -> Dataset:
    """Two numbers and a label that depends on them, a little differently at each edge.

    ``times(edge, events)`` gives an edge's times; by default its events are spread evenly over 0 to 1.
    """
    generator = torch.Generator().manual_seed(seed)
    counts = [batches] * edges if isinstance(batches, int) else list(batches)
    streams = []
    for edge, count in enumerate(counts):
        events = count * size
        x = torch.randn(events, 2, generator=generator)
        y = 2 + x @ torch.tensor([1.0, 0.5 + 0.1 * edge]) + 0.1 * torch.randn(events, generator=generator)
        when = times(edge, events) if times else torch.linspace(0, 1, events, dtype=torch.float64)
        streams.append(Stream({"x": x}, (y > 2).float() if task == "classify" else y, when))
    return Dataset("measured", task, (Field("x", "number", 2),), tuple(streams))  # type: ignore[arg-type]


def linear(loss: str | Loss = "mse") -> Model:
    return Model(nn.Linear(2, 1), fields=["x"], loss=loss)


def linear_bce() -> Model:
    return linear("bce")


class Normalised(nn.Module):
    """A user's module with running statistics.

    No bias before the norm: its gradient is rounding error alone, which Adam blows up to whole steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def normalised() -> Model:
    return Model(Normalised(), fields=["x"], loss="mse")


def exact(make: Callable[[], Model]) -> Model:
    """A model in double precision."""
    model = make()
    tables = [
        IdTable(tuple(model.fields[i] for i in t.fields), tuple(column.name for column in t.slices))
        for t in model.tables
    ]
    tallies = [model.fields[field] for field, _ in model.tallies]
    return Model(model.module.double(), fields=model.fields, tables=tables, tallies=tallies, loss=model.loss)


def with_labels(data: Dataset, edge: int, labels: Tensor) -> Dataset:
    """The data set with other labels at one edge."""
    streams = list(data.streams)
    streams[edge] = replace(streams[edge], labels=labels)
    return replace(data, streams=tuple(streams))


def predictions(world: World, edge: int) -> Tensor:
    """What an edge predicted, [batches, B]; NaN where it was not there."""
    start = int(world.batches.at_label[edge])
    return world.log.predictions[start : start + world.batches.count[edge]]


class Factors(nn.Module):
    """A small model with two id tables, one of them of two parameters."""

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.user = nn.Embedding(users, 2)
        self.item = nn.Embedding(items, 2)
        self.appeal = nn.Parameter(torch.zeros(items, 1))
        self.rest = nn.Linear(3, 1)

    def forward(self, user: Tensor, item: Tensor, numbers: Tensor) -> Tensor:
        match = (self.user(user) * self.item(item)).sum(-1)
        return self.rest(numbers).squeeze(-1) + match + nn.functional.embedding(item, self.appeal).squeeze(-1)


def factors(users: int, items: int) -> Model:
    tables = [IdTable(("user",), ("user.weight",)), IdTable(("item",), ("item.weight", "appeal"))]
    return Model(Factors(users, items), fields=["user", "item", "numbers"], tables=tables, loss="bce")


def shop_model(store: Store) -> Callable[[], Model]:
    """A model for a synthetic store that is quicker than DeepFM; can be sent to other processes."""
    return partial(factors, store.edges * store.users, store.items)


def shortened(data: Dataset, events: int) -> Dataset:
    """The first events of every edge."""
    streams = (
        Stream({k: v[:events] for k, v in s.inputs.items()}, s.labels[:events], s.times[:events]) for s in data.streams
    )
    return replace(data, streams=tuple(streams))
