"""A run's batches: every edge's stream cut into batches of one size, with the run's own labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.model import Model
from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.memory.own_rows import OwnRows
from alphaedge.simulation.memory.parts import InMemory, Parts

Clock = Literal["event-time", "batch-index"]


def batch_times(data: Dataset, size: int) -> list[Tensor]:
    """For each edge, when the last event of each of its batches happened."""
    return [s.times[size - 1 : len(s) // size * size : size].double() for s in data.streams]


@final
@dataclass(frozen=True)
class Inputs:
    """The batches of a data set, of some edges end to end: [T, B, ...]; the e-th has those from ``start[e]`` on.

    rows: in the numbering of each edge's own rows. own_rows: those of all edges, per id table.
    """

    inputs: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    start: list[int]
    count: list[int]
    own_rows: tuple[OwnRows, ...] = ()

    @classmethod
    def cut(
        cls,
        data: Dataset,
        model: Model,
        size: int,
        edges: range | None = None,
        *,
        every_row: bool = False,
        parts: Callable[[], Parts] = InMemory,
    ) -> "Inputs":
        """Batches of ``size`` events; what is left at a stream's end is too small for a batch and stays out.

        edges: those whose batches are wanted; None for all. every_row: whether edges have rows for ids that only others
        meet. parts: where the batches are kept.
        """
        edges = range(len(data.streams)) if edges is None else edges
        streams = data.streams[edges.start : edges.stop]
        count = [len(s) // size for s in streams]
        for edge, batches in zip(edges, count, strict=True):
            if not batches:
                name = f"edge {data.names[edge] if data.names else edge}: events"
                allowed = f"at least one batch of {size}: choose a smaller batch size, or leave this edge out"
                raise InvalidValue(name, len(data.streams[edge]), allowed)
        names = {f.name: f for f in data.fields}
        for name in model.fields:
            if name not in names:
                raise InvalidValue("model fields", name, f"one of {', '.join(names)}")
        for table in model.tables:
            for position in table.fields:
                field = names[model.fields[position]]
                if field.size > table.rows:
                    allowed = f"at least {field.size}, the ids of field {field.name}"
                    raise InvalidValue(f"rows of id table {table.name}", table.rows, allowed)
        own_rows = find_own_rows(data, model, size, every_row=every_row)
        inputs, rows = [parts() for _ in model.fields], [parts() for _ in model.tables]
        for edge, stream, batches in zip(edges, streams, count, strict=True):
            raw = [_batches(stream.inputs[name], batches, size, model.dtype) for name in model.fields]
            renumbered, named = compact(raw, model.tables)
            for kept, part in zip(inputs, renumbered, strict=True):
                kept.add(part)
            for kept, own, part in zip(rows, own_rows, named, strict=True):
                kept.add(own.renumber(edge, part))
        start = list(accumulate([0, *count[:-1]]))
        return cls(tuple(x.joined() for x in inputs), tuple(x.joined() for x in rows), start, count, own_rows)


def _batches(values: Tensor, count: int, size: int, dtype: torch.dtype) -> Tensor:
    """The values of the first batches, [count, size, ...]; numbers in the model's type."""
    some = values[: count * size]
    return (some.to(dtype) if some.is_floating_point() else some).view(count, size, *values.shape[1:])


def find_own_rows(data: Dataset, model: Model, size: int, *, every_row: bool = False) -> tuple[OwnRows, ...]:
    """The rows of each id table that edges have: those of their ids, or every row."""
    if every_row:
        return tuple(OwnRows.every(table.rows, len(data.streams)) for table in model.tables)
    found = []
    for table in model.tables:
        fields = [model.fields[f] for f in table.fields]
        met = ([s.inputs[f][: len(s) // size * size].flatten() for f in fields] for s in data.streams)
        found.append(OwnRows.of(table.rows, [torch.cat(some) for some in met]))
    return tuple(found)


@final
@dataclass(frozen=True)
class Labels:
    """Labels of one run [T, B], edge by edge: what is scored, and what an edge is taught (an attack may flip those)."""

    scored: Tensor
    taught: Tensor

    @classmethod
    def draw(
        cls,
        data: Dataset,
        size: int,
        conditions: Conditions,
        seed: int,
        dtype: torch.dtype,
        edges: range | None = None,
    ) -> "Labels":
        """The labels under the run's noise and adversaries. edges: those whose labels are wanted; None for all."""
        hostile = set(conditions.draw_adversaries(len(data.streams), seed))
        scored, taught = [], []
        if not conditions.make_attack().flips_labels:
            hostile = set()
        for edge in edges if edges is not None else range(len(data.streams)):
            stream = data.streams[edge]
            labels = stream.labels[: len(stream) // size * size].to(dtype)
            noise = conditions.label_noise if edge in conditions.noisy_edges else 0.0
            noise = noise or data.noise.get(edge, 0.0)
            if noise:
                flips = torch.from_numpy(conditions.draw_noise(edge, len(labels), noise, seed))
                labels = torch.where(flips, data.flip(labels), labels)
            scored.append(labels.view(-1, size))
            taught.append((data.flip(labels) if edge in hostile else labels).view(-1, size))
        joined = torch.cat(scored)
        return cls(joined, torch.cat(taught) if hostile else joined)


@final
class Batches:
    """The batches of all edges of one or several stacked runs, looked up by (edge, number).

    Runs on one data set share its inputs; each has its own labels. They are on the models' device, but ``scored``, the
    labels that predictions are scored by, is on the CPU. own_rows: per id table, of all edges of all runs.
    """

    def __init__(self, inputs: list[Inputs], labels: list[Labels], device: torch.device | str = "cpu") -> None:
        unique = list({id(i): i for i in inputs}.values())
        shift = {id(i): sum(sum(u.count) for u in unique[:n]) for n, i in enumerate(unique)}
        self._inputs = tuple(_joined(x).to(device) for x in zip(*(u.inputs for u in unique), strict=True))
        self.own_rows = [OwnRows.joined(x).to(device) for x in zip(*(i.own_rows for i in inputs), strict=True)]
        scratch = [own.scratch for own in self.own_rows]
        renumbered = ([_moved(*x) for x in zip(u.rows, u.own_rows, scratch, strict=True)] for u in unique)
        self._rows = tuple(_joined(x).to(device) for x in zip(*renumbered, strict=True))
        self.scored = _joined([x.scored for x in labels])
        self._taught = _joined([x.taught for x in labels]).to(device)
        at_input, at_label, done = [], [], 0
        for one, own in zip(inputs, labels, strict=True):
            at_input += [shift[id(one)] + s for s in one.start]
            at_label += [done + before for before in accumulate([0, *one.count[:-1]])]
            done += len(own.scored)
        self._at_input = torch.tensor(at_input, device=device)
        self.at_label = torch.tensor(at_label, device=device)
        self.count = [c for i in inputs for c in i.count]
        self.size = self.scored.shape[1]  # examples of a batch

    def get(self, edges: Tensor, numbers: Tensor) -> Batch:
        """Batch ``numbers[k]`` of edge ``edges[k]``, stacked, with the labels that the edge is taught."""
        place = self._at_input[edges] + numbers
        inputs = tuple(x.index_select(0, place) for x in self._inputs)
        return Batch(inputs, tuple(r.index_select(0, place) for r in self._rows), self.taught(edges, numbers))

    def taught(self, edges: Tensor, numbers: Tensor) -> Tensor:
        """The labels of those batches that the edges are taught, [k, B]."""
        return self._taught.index_select(0, self.at_label[edges] + numbers)

    def rows(self, edges: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        """The id rows that those batches name, per table [k, C]."""
        place = self._at_input[edges] + numbers
        return tuple(r.index_select(0, place) for r in self._rows)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """The parts end to end; a single one as it is, since inputs are the largest tensors of a run."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _moved(rows: Tensor, own: OwnRows, scratch: int) -> Tensor:
    """Rows whose scratch row is moved: it is the last one, after all rows of any edge."""
    return rows if own.scratch == scratch else torch.where(rows == own.scratch, scratch, rows)
