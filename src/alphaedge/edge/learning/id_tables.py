"""One id table of a live edge: rows are allocated as ids appear, and some of them are published."""

from collections.abc import Sequence
from typing import Final, final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.compression import Precision, compress_rows, has_moved, residual_columns
from alphaedge.core.disclosure import MARKS, enough, mark
from alphaedge.core.gradients import Gradients
from alphaedge.core.row_budget import usefulness
from alphaedge.core.state import ModelState, TableState
from alphaedge.core.tally import COLUMNS
from alphaedge.edge.inputs.lookup import NO_KEY, Inputs, RowLookup, compact_keys, find_rows, initial_rows
from alphaedge.edge.inputs.numbering import Admission, Numbering, rows_to_allocate

MIN_ROWS: Final = 10  # trained, before their usual length is known


@final
class IdRows:
    """The rows of one table, in this edge's numbering.

    copies: the table in the mixed model and, if there are, in the home model and the released one; all grow alike. Per
    row: ``named_since`` is the aggregation from which on its id is named to peers, -1 if it is not; ``marks`` [MARKS]
    are those of the users behind it, if they count (``core.disclosure``); ``trained`` says whether it was trained
    since the last publication, ``version`` the publication in which it last changed (0: never trained), ``published``
    its published values, as far as peers are told, ``residual`` what rounding has left out of them
    (``core.compression``).

    start: initial rows, of which the first ``width`` numbers are parameters. told: how many numbers are published.
    min_users: users behind a row before its id is named. local: whether no id is ever named.
    """

    def __init__(
        self,
        start: Tensor,
        copies: Sequence[TableState],
        capacity: int,
        *,
        width: int,
        told: int,
        min_users: int = 1,
        local: bool = False,
    ) -> None:
        self.start, self._copies, self.width = start, list(copies), width
        self.numbering = Numbering(capacity)
        self.min_users, self.local = min_users, local
        self.named_since = torch.empty(0, dtype=torch.long)
        self.marks = torch.empty(0, MARKS if min_users > 1 and not local else 0, dtype=torch.bool)
        self.trained = torch.empty(0, dtype=torch.bool)
        self.version = torch.empty(0, dtype=torch.long)
        self.published = start.new_empty(0, told)
        self.residual = start.new_empty(0, 0)
        self.moved: list[Tensor] = []  # rows that changed since take_changes()
        self.fresh: list[Admission] = []  # keys that got rows since then
        for copy in self._copies:
            copy.storage = start.new_zeros(3, 1, 1, start.shape[1])  # the scratch row

    @property
    def events(self) -> float:
        """How many events the tallies have counted, if there are tallies."""
        tallied = self.start.shape[1] > self.width
        return float(self._copies[0].value[0, :-1, self.width].sum()) if tallied else 0.0

    @property
    def size(self) -> int:
        """Allocated rows."""
        return len(self.version)

    def rows(self, keys: Tensor) -> Tensor:
        """The rows of keys, -1 where a key has none."""
        return find_rows(keys, self.numbering.find)

    def admit(self, keys: Tensor, aggregation: int) -> tuple[Tensor, list[Admission]]:
        """The rows of a batch's keys; new keys get rows. Scratch for ``NO_KEY``, and for keys beyond the capacity."""
        wanted = [k for k in keys.flatten().tolist() if k != NO_KEY]
        admitted = self.numbering.use(wanted)
        if len(self.numbering) > self.size:
            self._grow(rows_to_allocate(len(self.numbering), self.numbering.capacity))
        if admitted:
            fresh = torch.tensor([a.row for a in admitted])
            start = initial_rows(self.start, torch.tensor([a.key for a in admitted]))
            for copy in self._copies:
                copy.value[0, fresh], copy.m[0, fresh], copy.v[0, fresh] = start, 0.0, 0.0
            self.named_since[fresh] = -1 if self.local or self.min_users > 1 else aggregation
            self.marks[fresh], self.trained[fresh] = False, False
            self.version[fresh], self.published[fresh], self.residual[fresh] = 0, 0.0, 0.0
            self.moved.append(fresh)
            self.fresh += admitted
        rows = self.rows(keys)
        return torch.where(rows < 0, self.size, rows), admitted

    def adopt(self, keys: Tensor, values: Tensor) -> None:
        """Start rows that were just admitted from what peers say, in the mixed model only: parameters, and tallies."""
        rows = self.rows(keys)
        value = self._copies[0].value
        parameters, heard = values.to(value.dtype).tensor_split([self.width], dim=1)
        value[0, rows, : self.width] = parameters
        if heard.shape[1]:
            value[0, rows, self.width + COLUMNS :] = heard
        self.mark_changed(rows)

    def mark_trained(self, rows: Tensor) -> None:
        """Mark rows as trained; the scratch row may be among them."""
        self.trained[rows[rows < self.size]] = True
        self.mark_changed(rows)

    def note_users(self, rows: Tensor, users: Tensor, aggregation: int) -> None:
        """Note the users [B] behind the rows [B, F] of a learned batch, and which ids are named from now on."""
        if not self.marks.shape[1]:
            return
        padded = F.pad(self.marks, (0, 0, 0, 1)).unsqueeze(0)  # with the scratch row
        mark(padded, torch.tensor([0]), rows.unsqueeze(0), users.unsqueeze(0))
        self.marks = padded[0, :-1]
        self.named_since[enough(self.marks, self.min_users) & (self.named_since < 0)] = aggregation

    def restore_names(self, since: Tensor, marks: Tensor | None, aggregation: int) -> None:
        """Take up since when each id is named, and the users behind it as far as they are known.

        The settings may have changed meanwhile: where every id is named now, those that waited are named from now on,
        and ids of a local table no longer.
        """
        if marks is None or marks.shape[1] != self.marks.shape[1]:
            marks = torch.zeros(len(since), self.marks.shape[1], dtype=torch.bool)
        self.marks, self.named_since = marks, torch.full_like(since, -1) if self.local else since.clone()
        if self.min_users == 1 and not self.local:
            met = self.named_since[: len(self.numbering)]  # a view
            met[met < 0] = aggregation

    def mark_changed(self, rows: Tensor) -> None:
        """Mark rows as changed in one of the copies; the scratch row may be among them.

        Keys without a row have moved the scratch row. It is emptied: the next of them start as new ones do.
        """
        for copy in self._copies:
            copy.storage[:, :, -1] = 0.0
        self.moved.append(rows[rows < self.size])

    def mark_all_changed(self) -> None:
        """Mark every row as changed."""
        self.moved = [torch.arange(self.size)]

    def take_changes(self) -> tuple[Tensor, list[Admission]]:
        """Rows that changed and keys that got rows since the last call."""
        moved = torch.cat(self.moved) if self.moved else torch.empty(0, dtype=torch.long)
        fresh, self.moved, self.fresh = self.fresh, [], []
        return moved, fresh

    def due(self, min_change: float) -> Tensor:
        """The rows that were trained since they were last published, and have moved enough since."""
        trained = (self.trained & (self.named_since >= 0)).nonzero().squeeze(1)
        told = self.published.shape[1]
        moved = has_moved(self._copies[0].value[0, trained, :told], self.published[trained], self.width, min_change)
        return trained[moved | (self.version[trained] == 0)]

    def usefulness(self, rows: Tensor) -> Tensor:
        """How useful it is to publish rows (``core.row_budget``)."""
        told = self.published.shape[1]
        return usefulness(self._copies[0].value[0, rows, :told], self.published[rows], self.width)

    def publish(self, number: int, precision: Precision, due: Tensor, source: TableState | None = None) -> None:
        """Publish rows. source: the copy to publish from; otherwise the mixed model's."""
        values, told = (source or self._copies[0]).value[0], self.published.shape[1]
        self.residual = fit_columns(self.residual, residual_columns(self.width, precision))
        made = compress_rows(values[due, :told], self.residual[due], self.width, precision)
        self.published[due], self.residual[due] = made
        self.version[due], self.trained[due] = number, False

    def untrained(self) -> TableState:
        """The table with every row at its start."""
        value = torch.zeros_like(self._copies[0].value)
        keys = torch.tensor(self.numbering.keys_by_row(), dtype=torch.long)
        value[0, : len(keys)] = initial_rows(self.start, keys)
        return TableState.start(value, self.width)

    def usual_row(self, *, published: bool = True) -> float | None:
        """The median length of the rows trained so far; None if there are too few to say.

        published: as they were published, if they all were; else as they are in the mixed model.
        """
        own = self._copies[0]
        trained = self.version > 0 if published else (own.m[0, :-1] != 0).any(1) | (own.v[0, :-1] != 0).any(1)
        if int(trained.sum()) < MIN_ROWS:
            return None
        rows = self.published if published else own.value[0, :-1]
        return float(rows[trained, : self.width].norm(dim=1).median())

    def known(self) -> Tensor:
        """Which rows belong to an id, [1, size + 1]."""
        found = torch.zeros(1, self.size + 1, dtype=torch.bool)
        found[0, : len(self.numbering)] = True
        return found

    def _grow(self, size: int) -> None:
        more = size - self.size
        for copy in self._copies:
            copy.storage = F.pad(copy.storage[:, :, :-1], (0, 0, 0, more + 1))  # the scratch row stays the last
        self.named_since = F.pad(self.named_since, (0, more), value=-1)
        self.marks = F.pad(self.marks, (0, 0, 0, more))
        self.trained = F.pad(self.trained, (0, more))
        self.version = F.pad(self.version, (0, more))
        self.published = F.pad(self.published, (0, 0, 0, more))
        self.residual = F.pad(self.residual, (0, 0, 0, more))


def outputs_of(state: ModelState, tables: Sequence[IdRows], inputs: Inputs, gradients: Gradients) -> Tensor:
    """Outputs [1, B] of a model; ids without a row predict from the values that a new row would start with."""
    places, keys = compact_keys(gradients.model, inputs)
    rows = [
        RowLookup.of(wanted, table.rows(wanted), table.start).gather(storage.value[0])
        for table, storage, wanted in zip(tables, state.tables, keys, strict=True)
    ]
    return gradients.outputs(state.dense, rows, state.buffers, places)


def fit_columns(rows: Tensor, columns: int) -> Tensor:
    """Rows [C, ...] with so many columns: of a method that tells tallies, or of one that does not."""
    return F.pad(rows, (0, columns - rows.shape[1]))  # a negative padding cuts
