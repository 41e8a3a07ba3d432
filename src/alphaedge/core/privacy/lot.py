"""A lot: the events of a private step, who stands behind each of them, and which of them count."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch, named_rows, rows_of
from alphaedge.core.model import Model


@final
class SameUser(NamedTuple):
    """The examples of g users with at most m each, and more than half of it; padded with the user's last example.

    users: [g], by number. examples: [g, m], among those of all edges. there: [g, m], which of them are no padding.
    """

    users: Tensor
    examples: Tensor
    there: Tensor

    def of(self, values: Tensor) -> Tensor:
        """What these examples have among values of all, [k, L, F] -> [g, m, F]."""
        found = values.flatten(0, 1).index_select(0, self.examples.flatten())
        return found.view(*self.examples.shape, values.shape[2])


@final
@dataclass(frozen=True)
class Lot:
    """The lots of k edges, each of L events.

    users: [k, L], numbered through all edges; every event has a number of its own where events are protected.
    counts: [k, L], which events count. tally_counts: [k, L], which of them count in tallies as well.
    units: whether several events may have the same user.
    """

    events: Batch
    users: Tensor
    counts: Tensor
    tally_counts: Tensor
    units: bool

    @classmethod
    def of_events(cls, events: Batch) -> "Lot":
        """A lot in which every event stands for itself, and counts."""
        places = torch.arange(events.labels.numel(), device=events.labels.device).view(events.labels.shape)
        everything = torch.ones_like(places, dtype=torch.bool)
        return cls(events, places, everything, everything, units=False)

    @classmethod
    def of_users(cls, events: Batch, users: Tensor, counts: Tensor, tally_counts: Tensor | None = None) -> "Lot":
        """A lot with the users of each edge by numbers of any kind, [k, L]."""
        edge = torch.arange(len(users), device=users.device).unsqueeze(1).expand_as(users)
        names, code = torch.unique(users, return_inverse=True)
        number = torch.unique(edge * len(names) + code, return_inverse=True)[1]
        return cls(events, number, counts, counts if tally_counts is None else tally_counts, units=True)

    def where(self, mask: Tensor) -> "Lot":
        """The same lot, of which only these events count, [k, L], if they did before."""
        return replace(self, counts=self.counts & mask, tally_counts=self.tally_counts & mask)

    @property
    def size(self) -> int:
        """Events of each edge, whether they count or not."""
        return self.events.labels.shape[1]

    def by_user(self) -> "Iterator[SameUser]":
        """The examples of each user, the users with about as many together; each user once, by ``users`` numbers."""
        order, counts = self.users.flatten().argsort(stable=True), self.users.flatten().bincount()
        first, most = counts.cumsum(0) - counts, 1
        while most < 2 * int(counts.max()):
            users = ((counts > most // 2) & (counts <= most)).nonzero().flatten()
            if len(users):
                number, sizes = torch.arange(int(counts[users].max()), device=users.device), counts[users].unsqueeze(1)
                places = first[users].unsqueeze(1) + number.minimum(sizes - 1)
                yield SameUser(users, order[places], number < sizes)
            most *= 2

    def rows(self, model: Model, tables: Sequence[int]) -> list[Tensor]:
        """The rows that each example names in some id tables, each [k, L, F]."""
        return [named_rows(self.events, table, model.tables[table].fields) for table in tables]


def users_of(events: Batch, model: Model, field: str) -> Tensor:
    """The users of k edges' events, [k, L], by their rows or codes in a field of the model."""
    position = model.fields.index(field)
    for t, table in enumerate(model.tables):
        if position in table.fields:
            return rows_of(events, t, position)
    return events.inputs[position].long()
