"""Which ids each edge may name to its peers, and from which aggregation on."""

from typing import final

import torch
from torch import Tensor

from alphaedge.core.batch import named_rows
from alphaedge.core.disclosure import MARKS, Disclosure, enough, mark
from alphaedge.core.model import Model
from alphaedge.core.privacy.lot import users_of
from alphaedge.core.state import ModelState
from alphaedge.simulation.batches import Batches


@final
class NamedIds:
    """Of n edges. since: per id table [n, rows + 1], the aggregation from which on an id is named; -1 if it is not.

    marks: per id table [n, rows + 1, MARKS], of the users behind each row, if they count (``core.disclosure``).
    """

    def __init__(self, disclosure: Disclosure | None, model: Model, models: ModelState) -> None:
        self._disclosure, self._model = disclosure or Disclosure(), model
        self._local = self._disclosure.local_tables(model)
        self.since = [t.value.new_full(t.value.shape[:2], -1, dtype=torch.long) for t in models.tables]
        counted = models.tables if self._disclosure.counts_users else []
        self.marks = [t.value.new_zeros(*t.value.shape[:2], MARKS, dtype=torch.bool) for t in counted]

    @property
    def every_id(self) -> bool:
        """Whether an edge names every id that it has met."""
        return not self._local and not self.marks

    def note_met(self, edges: Tensor, numbers: Tensor, batches: Batches, now: Tensor) -> None:
        """Note that edges [m] have met batches [m]; now [m]: the aggregation from which on they can ask."""
        if self.marks:
            return
        for t, rows in enumerate(batches.rows(edges, numbers)):
            self._name(t, edges.unsqueeze(1), rows, now.unsqueeze(1))

    def note_learned(self, edges: Tensor, numbers: Tensor, batches: Batches, now: Tensor) -> None:
        """Note that edges [m] have learned from batches [m]: users stand behind the rows that those name."""
        if not self.marks or not len(edges):
            return
        batch, user = batches.get(edges, numbers), self._disclosure.user
        size = batch.labels.shape[1]
        events = numbers.unsqueeze(1) * size + torch.arange(size, device=numbers.device)
        users = events if user is None else users_of(batch, self._model, user)
        for t, marks in enumerate(self.marks):
            mark(marks, edges, named_rows(batch, t, self._model.tables[t].fields), users)
            rows = batch.rows[t]
            passed = enough(marks[edges.unsqueeze(1), rows], self._disclosure.min_users)
            place, column = passed.nonzero(as_tuple=True)
            self._name(t, edges[place], rows[place, column], now[place])

    def _name(self, table: int, edges: Tensor, rows: Tensor, now: Tensor) -> None:
        """Rows of edges are named from now on, unless they were before."""
        if table in self._local:
            return
        since = self.since[table]
        since[edges, rows] = torch.where(since[edges, rows] < 0, now.expand_as(rows), since[edges, rows])
        since[:, -1] = -1
