"""The models of n edges, stacked. A live edge is a stack of one.

Everything that training moves: dense parameters with their two moments [n, D], id tables with theirs
[n, rows + 1, columns], buffers [n, ...] and step counts [n]. A row has its parameters first, then tallies, if its table
has them (core.tally). The last row of a table is a scratch row: batches name it where they have fewer ids than places.
Nothing reads it but ids of a live edge that found no row.
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
    """One id table of k edges: values and moments in one storage [3, n, rows + 1, columns], and whose part is meant.

    One storage, since a step of few edges takes the time of its calls: three look-ups are as dear as the arithmetic.
    width: how many numbers of a row are parameters; tallies, which come after them, have no moments.
    """

    storage: Tensor
    edges: Tensor  # [k], places in the storage
    width: int

    @classmethod
    def start(cls, value: Tensor, width: int) -> "TableState":
        """All edges of [n, rows + 1, columns], before any training."""
        storage = value.new_zeros(3, *value.shape)
        storage[0] = value
        return cls(storage, torch.arange(len(value), device=value.device), width)

    @property
    def value(self) -> Tensor:
        """The rows, [n, rows + 1, columns]."""
        return self.storage[0]

    @property
    def m(self) -> Tensor:
        """Their first moments."""
        return self.storage[1]

    @property
    def v(self) -> Tensor:
        """Their second moments."""
        return self.storage[2]

    @property
    def scratch(self) -> int:
        """The row that batches name where they have no id."""
        return self.storage.shape[2] - 1

    def flat(self, rows: Tensor) -> Tensor:
        """Places of rows [k, C] among those of all n edges, [k * C]."""
        return (self.edges.unsqueeze(1) * self.storage.shape[2] + rows).view(-1)

    def gather(self, flat: Tensor) -> Tensor:
        """The rows in those places as [k, C, columns]."""
        return self._shaped(self.value.view(-1, self.storage.shape[-1]).index_select(0, flat))

    def take(self, flat: Tensor) -> Tensor:
        """The rows in those places with their moments, as [3, k, C, columns]."""
        return self._shaped(self._lines().index_select(1, flat))

    def put(self, flat: Tensor, taken: Tensor) -> None:
        """Write rows and moments [3, k, C, columns] back in place."""
        self._lines().index_copy_(1, flat, taken.view(3, -1, taken.shape[-1]))

    def parameters(self, taken: Tensor) -> Tensor:
        """The parameters among rows and moments [3, ..., columns], in an order of memory that kernels can rely on."""
        return taken if taken.shape[-1] == self.width else taken[..., : self.width].contiguous()

    def put_parameters(self, flat: Tensor, taken: Tensor, parameters: Tensor) -> None:
        """Write back what ``take`` gave, with the parameters of it that an optimizer has moved."""
        if parameters is not taken:
            taken[..., : self.width] = parameters
        self.put(flat, taken)

    def _shaped(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:-2], self.edges.shape[0], -1, rows.shape[-1])

    def _lines(self) -> Tensor:
        _, n, rows, columns = self.storage.shape
        return self.storage.view(3, n * rows, columns)


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
    def start(
        cls,
        models: Sequence[Model],
        which: Sequence[int],
        device: torch.device | str = "cpu",
        rows: Sequence[Tensor] | None = None,
    ) -> "ModelState":
        """A state on a device in which edge i starts from the parameters of ``models[which[i]]``.

        rows: per id table [n, C + 1], which of its rows each edge has; the number after the last row stands for none.
        Every edge has all of them by default.
        """
        pick = torch.tensor(list(which), dtype=torch.long, device=device)
        dense = torch.stack([m.initial_dense() for m in models]).to(device)[pick]
        tables = []
        for t in range(len(models[0].tables)):
            values = torch.stack([m.initial_table(t) for m in models]).to(device)
            values = torch.cat([values, torch.zeros_like(values[:, :1])], dim=1)
            values = values[pick] if rows is None else values[pick.unsqueeze(1), rows[t]]
            tables.append(TableState.start(values, models[0].tables[t].width))
        names = models[0].initial_buffers()
        initial = [m.initial_buffers() for m in models]
        buffers = {name: torch.stack([b[name] for b in initial]).to(device)[pick] for name in names}
        steps = torch.zeros(len(pick), dtype=torch.long, device=device)
        return cls(dense, torch.zeros_like(dense), torch.zeros_like(dense), tables, buffers, steps)

    def copy(self) -> "ModelState":
        """A copy that shares nothing with this one."""
        tables = [TableState(t.storage.clone(), t.edges, t.width) for t in self.tables]
        buffers = {name: b.clone() for name, b in self.buffers.items()}
        dense = (self.dense.clone(), self.dense_m.clone(), self.dense_v.clone())
        return ModelState(*dense, tables, buffers, self.steps.clone())

    def halves(self) -> tuple["ModelState", "ModelState"]:
        """The first half of the edges and the second; both share the storage of the whole."""
        middle = len(self) // 2
        return self._part(0, middle), self._part(middle, len(self))

    def _part(self, start: int, stop: int) -> "ModelState":
        here, places = slice(start, stop), torch.arange(stop - start, device=self.device)
        return ModelState(
            self.dense[here],
            self.dense_m[here],
            self.dense_v[here],
            [TableState(t.storage[:, here], places, t.width) for t in self.tables],
            {name: b[here] for name, b in self.buffers.items()},
            self.steps[here],
        )

    def select(self, edges: Tensor) -> "ModelState":
        """The state of the named edges: dense part copied, id tables shared with this one."""
        return ModelState(
            self.dense.index_select(0, edges),
            self.dense_m.index_select(0, edges),
            self.dense_v.index_select(0, edges),
            [TableState(t.storage, t.edges.index_select(0, edges), t.width) for t in self.tables],
            {name: b.index_select(0, edges) for name, b in self.buffers.items()},
            self.steps.index_select(0, edges),
        )

    def select_models(self, edges: Tensor) -> "ModelState":
        """The named edges' models alone, to mix: like ``select``, but without the state of their training."""
        nothing = self.dense[:0]
        tables = [TableState(t.storage, t.edges.index_select(0, edges), t.width) for t in self.tables]
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

    def copy_edges(self, edges: Tensor, source: "ModelState", rows: Sequence[Tensor] | None = None) -> None:
        """Make the named edges what they are in another state: parameters, rows, statistics and training.

        rows: per id table [k, C], the rows that are copied; all by default.
        """
        part = source.select(edges)
        for t, (mine, theirs) in enumerate(zip(self.tables, part.tables, strict=True)):
            here = TableState(mine.storage, mine.edges[edges], mine.width)
            if rows is None:
                here.storage[:, here.edges] = theirs.storage[:, theirs.edges]
            else:
                here.put(here.flat(rows[t]), theirs.take(theirs.flat(rows[t])))
        self.write(edges, part)
