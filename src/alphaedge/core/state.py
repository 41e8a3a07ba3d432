"""The models of n edges, stacked. A live edge is a stack of one.

Everything that training moves: dense parameters with their two moments [n, D], id tables with theirs
[n, rows + 1, width], buffers [n, ...] and step counts [n]. The last row of a table is a scratch row: batches name
it where they have fewer ids than places. Nothing reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.core.model import Model


@final
@dataclass
class TableState:
    """One id table of k edges: values and moments as storage [n, rows + 1, width], and whose part is meant."""

    value: Tensor
    m: Tensor
    v: Tensor
    edges: Tensor  # [k], places in the storage

    @property
    def scratch(self) -> int:
        """The row that batches name where they have no id."""
        return self.value.shape[1] - 1

    def flat(self, rows: Tensor) -> Tensor:
        """Places of rows [k, C] in the flattened storage, [k * C]."""
        return (self.edges[:, None] * self.value.shape[1] + rows).reshape(-1)

    def gather(self, storage: Tensor, flat: Tensor) -> Tensor:
        """The named rows of a storage tensor as [k, C, width]."""
        found = storage.view(-1, storage.shape[-1]).index_select(0, flat)
        return found.view(len(self.edges), -1, storage.shape[-1])

    def scatter(self, storage: Tensor, flat: Tensor, rows: Tensor) -> None:
        """Write rows [k, C, width] back in place."""
        storage.view(-1, storage.shape[-1]).index_copy_(0, flat, rows.reshape(-1, storage.shape[-1]))


@final
@dataclass
class ModelState:
    """The trainable state of n edges of one model."""

    dense: Tensor
    dense_m: Tensor
    dense_v: Tensor
    tables: list[TableState]
    buffers: dict[str, Tensor]
    steps: Tensor

    def __len__(self) -> int:
        return len(self.dense)

    @property
    def device(self) -> torch.device:
        """Where all of it is."""
        return self.dense.device

    @classmethod
    def start(cls, models: Sequence[Model], which: Sequence[int], device: torch.device | str = "cpu") -> "ModelState":
        """A state on a device in which edge i starts from the parameters of ``models[which[i]]``."""
        pick = torch.tensor(list(which), dtype=torch.long, device=device)
        dense = torch.stack([m.initial_dense() for m in models]).to(device)[pick]
        tables = []
        for t in range(len(models[0].tables)):
            values = torch.stack([m.initial_table(t) for m in models]).to(device)
            values = torch.cat([values, torch.zeros_like(values[:, :1])], dim=1)[pick]
            places = torch.arange(len(pick), device=device)
            tables.append(TableState(values, torch.zeros_like(values), torch.zeros_like(values), places))
        names = models[0].initial_buffers()
        initial = [m.initial_buffers() for m in models]
        buffers = {name: torch.stack([b[name] for b in initial]).to(device)[pick] for name in names}
        steps = torch.zeros(len(pick), dtype=torch.long, device=device)
        return cls(dense, torch.zeros_like(dense), torch.zeros_like(dense), tables, buffers, steps)

    def copy(self) -> "ModelState":
        """A copy that shares nothing with this one."""
        tables = [TableState(t.value.clone(), t.m.clone(), t.v.clone(), t.edges) for t in self.tables]
        buffers = {name: b.clone() for name, b in self.buffers.items()}
        dense = (self.dense.clone(), self.dense_m.clone(), self.dense_v.clone())
        return ModelState(*dense, tables, buffers, self.steps.clone())

    def twice(self) -> tuple["ModelState", "ModelState", "ModelState"]:
        """A state of 2 n edges, each twice, with its two halves, which share its storage."""
        edges = torch.arange(len(self), device=self.device).repeat(2)
        whole, places = self.select(edges), torch.arange(len(edges), device=self.device)
        whole.tables = [TableState(t.value[t.edges], t.m[t.edges], t.v[t.edges], places) for t in whole.tables]
        return whole, whole._part(0, len(self)), whole._part(len(self), 2 * len(self))

    def _part(self, start: int, stop: int) -> "ModelState":
        here, places = slice(start, stop), torch.arange(stop - start, device=self.device)
        return ModelState(
            self.dense[here],
            self.dense_m[here],
            self.dense_v[here],
            [TableState(t.value[here], t.m[here], t.v[here], places) for t in self.tables],
            {name: b[here] for name, b in self.buffers.items()},
            self.steps[here],
        )

    def select(self, edges: Tensor) -> "ModelState":
        """The state of the named edges: dense part copied, id tables shared with this one."""
        return ModelState(
            self.dense.index_select(0, edges),
            self.dense_m.index_select(0, edges),
            self.dense_v.index_select(0, edges),
            [TableState(t.value, t.m, t.v, t.edges.index_select(0, edges)) for t in self.tables],
            {name: b.index_select(0, edges) for name, b in self.buffers.items()},
            self.steps.index_select(0, edges),
        )

    def select_models(self, edges: Tensor) -> "ModelState":
        """The named edges' models alone, to mix: like ``select``, but without the state of their training."""
        nothing = self.dense[:0]
        tables = [TableState(t.value, t.m, t.v, t.edges.index_select(0, edges)) for t in self.tables]
        buffers = {name: b.index_select(0, edges) for name, b in self.buffers.items()}
        return ModelState(self.dense.index_select(0, edges), nothing, nothing, tables, buffers, self.steps[:0])

    def write_models(self, edges: Tensor, models: "ModelState") -> None:
        """Write mixed models back; moments and step counts stay as they are."""
        self.dense.index_copy_(0, edges, models.dense)
        for name, buffer in self.buffers.items():
            buffer.index_copy_(0, edges, models.buffers[name])

    def write(self, edges: Tensor, part: "ModelState") -> None:
        """Write a part's dense state, buffers and step counts back (its id tables are shared already)."""
        self.dense.index_copy_(0, edges, part.dense)
        self.dense_m.index_copy_(0, edges, part.dense_m)
        self.dense_v.index_copy_(0, edges, part.dense_v)
        for name, buffer in self.buffers.items():
            buffer.index_copy_(0, edges, part.buffers[name])
        self.steps.index_copy_(0, edges, part.steps)

    def copy_edges(self, edges: Tensor, source: "ModelState") -> None:
        """Make the named edges what they are in another state: parameters, rows, statistics and training."""
        for mine, theirs in zip(self.tables, source.tables, strict=True):
            for storage, other in ((mine.value, theirs.value), (mine.m, theirs.m), (mine.v, theirs.v)):
                storage[mine.edges[edges]] = other[theirs.edges[edges]]
        self.write(edges, source.select(edges))
