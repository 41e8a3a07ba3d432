"""What a task needs of memory, counted from the shapes of what it holds, before any of it is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from alphaedge.core.compression import residual_columns
from alphaedge.core.methods import Method
from alphaedge.core.model import Model
from alphaedge.core.tally import COLUMNS
from alphaedge.data.stream import Dataset
from alphaedge.simulation.engine import mix_block
from alphaedge.simulation.memory.own_rows import OwnRows
from alphaedge.simulation.memory.size import show_size

PROCESS: Final = 330_000_000  # of a process before its first task: Python, torch, polars
_ACTIVATIONS: Final = 4_000  # bytes of what a model computes on one event, about


@final
@dataclass(frozen=True)
class Need:
    """Bytes that a task needs: for its events, and for each seed, models with their optimizer state, publications, and
    labels and scores.

    training: for each model that learns at once. mixing: for each edge that mixes at once. peers: of an edge.
    """

    models: int
    published: int
    events: int
    scores: int
    training: int
    mixing: int
    peers: int

    @classmethod
    def of(
        cls,
        model: Model,
        data: Dataset,
        method: Method,
        *,
        size: int,
        own_rows: Sequence[OwnRows],
        generations: int,
        events_on_disk: bool,
    ) -> "Need":
        """What a method needs. size: events per batch. generations: of publications."""
        edges, number = len(data.streams), model.dtype.itemsize
        events = sum(len(s) // size for s in data.streams) * size
        statistics = sum(b.numel() * b.element_size() for b in model.initial_buffers().values())
        dense = model.initial_dense().numel() * number
        rows = [(own.scratch + 1, table.width * number) for own, table in zip(own_rows, model.tables, strict=True)]
        tables = sum(count * width for count, width in rows)
        peers = min(edges - 1, method.selection.peers or edges) if method.aggregation.uses_peers else 0
        copies = 1 + bool(method.home) + (method.train_ahead and bool(peers))
        fields = [data.streams[0].inputs[name][0] for name in model.fields]
        event = sum(x.numel() * (number if x.is_floating_point() else x.element_size()) for x in fields)
        named = sum(len(table.fields) for table in model.tables)  # ids of an event
        noted = sum(count * 9 for count, _ in rows)  # whether and since when an edge knows a row
        published = dense + statistics + tables + sum(count * 4 for count, _ in rows)
        others = min(edges - 1, method.suited(model).others) if peers else 0
        tallies = sum(count * COLUMNS * number for count, _ in rows)
        residuals = dense + tables if residual_columns(1, method.precision) else 0
        of_batch = size * named * max((width for _, width in rows), default=0)
        return cls(
            models=edges * (copies * (3 * (dense + tables) + statistics) + noted),
            published=edges * (generations * published + residuals) if peers else 0,
            events=0 if events_on_disk else events * (2 * event + 8 * named),
            scores=events * (2 * number + 4) + events // size * 100 + edges * 4_000,
            training=7 * dense + 5 * of_batch + size * (3 * (event + 8 * named) + _ACTIVATIONS),
            mixing=(peers + 2) * (4 * dense + 2 * tables + sum(count * 40 for count, _ in rows) + 4 * of_batch)
            + others * (3 * tallies + sum(count * 24 for count, _ in rows)),
            peers=peers,
        )

    def total(self, block: int, seeds: int = 1) -> int:
        """Of some seeds as one stack, with so many models at once."""
        at_once = max(block * self.training, mix_block(block, self.peers) * self.mixing)
        return PROCESS + self.events + seeds * (self.models + self.published + self.scores) + at_once

    def __str__(self) -> str:
        parts = {"models": self.models, "publications": self.published, "events": self.events, "scores": self.scores}
        return ", ".join(f"{name} {show_size(size)}" for name, size in parts.items())
