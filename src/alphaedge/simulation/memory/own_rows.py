"""Which rows of an id table each edge has: those of the ids in its own events.

An edge that never meets an id needs no row for it: it predicts nothing with it, learns nothing about it and asks nobody
for it. So the tables of a fleet do not grow with the ids that only others meet. Each edge numbers its own rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import torch
from torch import Tensor
from torch.nn import functional as F

LOOKED_UP: Final = (
    1 << 20
)  # places at most that are looked up, in a fifth of the time of a search; more are searched for


@final
@dataclass(frozen=True)
class OwnRows:
    """The rows of one id table that N edges have.

    rows: how many the table has. named: [N, C + 1], for each edge its rows in ascending order; ``rows`` stands for
    none, in the last place at least, which is the scratch row (core.state).
    """

    rows: int
    named: Tensor

    @classmethod
    def of(cls, rows: int, named: Sequence[Tensor]) -> "OwnRows":
        """From the rows that each edge's events name, in any order.

        >>> OwnRows.of(9, [torch.tensor([7, 2, 7]), torch.tensor([5])]).named.tolist()
        [[2, 7, 9], [5, 9, 9]]
        """
        each = [torch.unique(some).int() for some in named]
        size = max(len(some) for some in each)
        return cls(rows, torch.stack([F.pad(some, (0, size + 1 - len(some)), value=rows) for some in each]))

    @classmethod
    def every(cls, rows: int, edges: int) -> "OwnRows":
        """For edges that have every row."""
        return cls(rows, torch.arange(rows + 1, dtype=torch.int32, device="cpu").repeat(edges, 1))

    @classmethod
    def joined(cls, parts: Sequence["OwnRows"]) -> "OwnRows":
        """Of the edges of several fleets, one after the other."""
        size = max(part.scratch for part in parts)
        rows = parts[0].rows
        return cls(rows, torch.cat([F.pad(p.named, (0, size - p.scratch), value=rows) for p in parts]))

    def to(self, device: torch.device | str) -> "OwnRows":
        """On another device."""
        return OwnRows(self.rows, self.named.to(device))

    @property
    def scratch(self) -> int:
        """The last place of an edge, where it has no row."""
        return self.named.shape[1] - 1

    @cached_property
    def _inverse(self) -> Tensor | None:
        """In which place each edge has each row of the table, edge after edge; None if that were too many numbers."""
        if len(self.named) * (self.rows + 1) > LOOKED_UP:
            return None
        places = torch.arange(self.scratch + 1, device=self.named.device).expand(self.named.shape)
        found = places.new_full((len(self.named), self.rows + 1), self.scratch).scatter_(1, self.named.long(), places)
        found[:, -1] = self.scratch
        return found.view(-1)

    def renumber(self, edge: int, rows: Tensor) -> Tensor:
        """The places in which an edge has these rows of the table; scratch for ``rows``, the table's scratch row."""
        places = torch.searchsorted(self.named[edge], rows.int())
        return places.masked_fill_(rows == self.rows, self.scratch)

    def places(self, edges: Tensor, peers: Tensor) -> Tensor:
        """Where peers [g, P] have the rows of edges [g]: for each of an edge's places, [g, P, C + 1]; else scratch."""
        if self._inverse is not None:
            flat = peers.unsqueeze(2) * (self.rows + 1) + self.named[edges].unsqueeze(1)
            return self._inverse.index_select(0, flat.view(-1)).view(flat.shape)
        mine = self.named[edges].unsqueeze(1).expand(-1, peers.shape[1], -1).contiguous()
        theirs = self.named[peers]
        found = torch.searchsorted(theirs, mine)
        there = (theirs.gather(2, found) == mine) & (mine < self.rows)
        return torch.where(there, found, self.scratch)
