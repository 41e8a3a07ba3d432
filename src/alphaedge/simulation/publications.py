"""What edges have published: the models that others may pull, as many generations back as somebody may read."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import HeldModels
from alphaedge.core.compression import (
    Precision,
    compress_dense,
    compress_rows,
    has_moved,
    residual_columns,
    row_bytes,
)
from alphaedge.core.row_budget import usefulness, within_budget
from alphaedge.core.start import median
from alphaedge.core.state import ModelState, TableState

_BLOCK: Final = 256  # edges whose models are copied at once


@final
class Parcel(NamedTuple):
    """Some publications, on their way to another shard. rows: per table, of which and where, with their values."""

    dense: Tensor
    records: Tensor
    statistics: dict[str, Tensor]
    version: list[Tensor]
    rows: list[tuple[Tensor, Tensor, Tensor]]


@final
class _Due(NamedTuple):
    """Rows of an id table that are due: whose, where they are in the state and go to in the pool, and what they are."""

    which: Tensor
    source: Tensor
    target: Tensor
    rows: Tensor

    def only(self, mask: Tensor) -> "_Due":
        return _Due(*(part[mask] for part in self))


@final
class Publications:
    """The last ``depth`` publications of every edge; number 0 is the initial model.

    In an id table only rows trained since the last publication change (see core.exchange), so ``version`` says in
    which publication a row last changed, 0 for a row that its edge has never trained; such rows are zero here.

    All are in one pool, of ``depth * n`` places and some more for guests: publications of other shards. told: how many
    numbers of a row are published, per id table. precision, min_change: see ``core.compression``; publish_bytes: see
    ``core.row_budget``. ``residual_dense`` and ``residual_rows`` are what rounding has left out of the newest
    publications.
    """

    def __init__(
        self,
        state: ModelState,
        depth: int,
        statistics: tuple[str, ...],
        told: Sequence[int],
        guests: int = 0,
        precision: Precision = "full",
        min_change: float = 0.0,
        publish_bytes: int | None = None,
    ) -> None:
        n, device = len(state), state.device
        self.depth, self.n, self.precision, self.min_change = depth, n, precision, min_change
        self.publish_bytes, each = publish_bytes or 0, state.dense.element_size()
        budgeted = zip(state.tables, told, strict=True) if publish_bytes else ()
        self.row_bytes = [row_bytes(table.width, numbers, each, precision) for table, numbers in budgeted]
        size = depth * n + guests
        self.number = torch.zeros(n, dtype=torch.long, device=device)
        self.all_records = torch.zeros(size, dtype=torch.long, device=device)
        self.all_dense = state.dense.new_zeros(size, *state.dense.shape[1:])
        self.all_tables = [
            t.value.new_zeros(size, t.value.shape[1], numbers) for t, numbers in zip(state.tables, told, strict=True)
        ]
        self.all_version = [t.value.new_zeros(size, t.value.shape[1], dtype=torch.int32) for t in state.tables]
        self.all_statistics = {
            name: state.buffers[name].new_zeros(size, *state.buffers[name].shape[1:]) for name in statistics
        }
        self.residual_dense = state.dense.new_zeros(n, residual_columns(state.dense.shape[1], precision))
        self.residual_rows = [
            t.value.new_zeros(n, t.value.shape[1], residual_columns(t.width, precision)) for t in state.tables
        ]
        self.dense[:] = compress_dense(state.dense, self.residual_dense, precision).published
        for name, pool in self.statistics.items():
            pool[:] = state.buffers[name]

    def _own(self, pool: Tensor) -> Tensor:
        return pool[: self.depth * self.n].view(self.depth, self.n, *pool.shape[1:])

    @property
    def records(self) -> Tensor:
        """How much each publication has learned from, [depth, n]."""
        return self._own(self.all_records)

    @property
    def dense(self) -> Tensor:
        """Dense parts, [depth, n, D]."""
        return self._own(self.all_dense)

    @property
    def tables(self) -> list[Tensor]:
        """Id tables, each [depth, n, rows + 1, width]."""
        return [self._own(pool) for pool in self.all_tables]

    @property
    def version(self) -> list[Tensor]:
        """Versions of their rows, each [depth, n, rows + 1]."""
        return [self._own(pool) for pool in self.all_version]

    @property
    def statistics(self) -> dict[str, Tensor]:
        """Running statistics, each [depth, n, ...]."""
        return {name: self._own(pool) for name, pool in self.all_statistics.items()}

    def publish(
        self,
        edges: Tensor,
        state: ModelState,
        trained: list[Tensor],
        records: Tensor,
        named_since: Sequence[Tensor] = (),
    ) -> None:
        """Publish some edges of the state.

        ``trained[t]`` [n, rows + 1] are their rows to publish anew, if they have moved. It is False afterwards for
        those that were published; the others wait for the next time. named_since: per table [n, rows + 1], negative for
        a row whose id may not be named; without, every id may.
        """
        for some in torch.split(edges, _BLOCK):
            self._publish(some, state, trained, records, named_since)

    def _publish(
        self,
        edges: Tensor,
        state: ModelState,
        trained: list[Tensor],
        records: Tensor,
        named_since: Sequence[Tensor],
    ) -> None:
        before = self.number[edges] % self.depth
        self.number[edges] += 1
        now = self.number[edges] % self.depth
        made = compress_dense(state.dense[edges], self.residual_dense[edges], self.precision)
        self.dense[now, edges], self.residual_dense[edges] = made
        self.records[now, edges] = records[edges]
        for name, pool in self.statistics.items():
            pool[now, edges] = state.buffers[name][edges]
        tables = zip(state.tables, self.tables, self.version, trained, strict=True)
        due = []
        for t, (table, pool, version, flags) in enumerate(tables):
            if self.depth > 1:
                pool[now, edges] = pool[before, edges]
                version[now, edges] = version[before, edges]
            wanted = flags[edges] & (named_since[t][edges] >= 0) if named_since else flags[edges]
            due.append(self._due(t, table, edges, now, wanted))
        if self.row_bytes:
            due = self._most_useful(state.tables, due)
        for table, pool, version, residual, flags, some in zip(
            state.tables, self.tables, self.version, self.residual_rows, trained, due, strict=True
        ):
            left = residual.flatten(0, 1)  # a view
            made = compress_rows(some.rows, left.index_select(0, some.source), table.width, self.precision)
            pool.view(-1, pool.shape[-1]).index_copy_(0, some.target, made.published)
            left.index_copy_(0, some.source, made.residual)
            version.view(-1).index_copy_(0, some.target, self.number[edges][some.which].to(torch.int32))
            flags.view(-1)[some.source] = False

    def _due(self, t: int, table: TableState, edges: Tensor, now: Tensor, wanted: Tensor) -> _Due:
        """The rows of an id table that are wanted [k, rows + 1], as far as they have moved enough."""
        which, row = wanted.nonzero(as_tuple=True)
        pool, version = self.tables[t], self.version[t]
        source = edges[which] * table.value.shape[1] + row
        target = now[which] * table.value.shape[0] * table.value.shape[1] + source
        rows = table.value.view(-1, table.value.shape[-1]).index_select(0, source)[:, : pool.shape[-1]]
        found = _Due(which, source, target, rows)
        if not self.min_change:
            return found
        held = pool.view(-1, pool.shape[-1]).index_select(0, target)
        return found.only(has_moved(rows, held, table.width, self.min_change) | (version.view(-1)[target] == 0))

    def _most_useful(self, tables: Sequence[TableState], due: Sequence[_Due]) -> list[_Due]:
        """Of the rows that are due, the most useful ones that fit into ``publish_bytes``."""
        useful = []
        for table, pool, some in zip(tables, self.tables, due, strict=True):
            held = pool.view(-1, pool.shape[-1]).index_select(0, some.target)
            useful.append(usefulness(some.rows, held, table.width))
        fit = within_budget(useful, [some.which for some in due], self.row_bytes, self.publish_bytes)
        return [some.only(mask) for some, mask in zip(due, fit, strict=True)]

    def places(self, edges: Tensor, numbers: Tensor) -> Tensor:
        """Places in the pool of publications, by edge and number."""
        return (numbers % self.depth) * self.n + edges

    def hold(self, index: Tensor, rows: Sequence[Tensor], present: Tensor, *, statistics: bool) -> HeldModels:
        """The publications in places [g, P], as g edges hold them. statistics: whether running statistics are mixed.

        rows: per table [g, P, C + 1], in which place each publication has each of the edge's rows.
        """
        mixed = self.all_statistics if statistics else {}
        if not self.all_tables:
            return HeldModels(self.all_dense, (), (), mixed, index, present)
        flat = index.flatten()
        return HeldModels(
            self.all_dense[flat],
            tuple(_rows_of(pool, index, some).flatten(0, 1) for pool, some in zip(self.all_tables, rows, strict=True)),
            tuple(version.flatten(0, 1) > 0 for version in self.versions(index, rows)),
            {name: pool[flat] for name, pool in mixed.items()},
            torch.arange(len(flat), device=flat.device).view(index.shape),
            present,
        )

    def tallies(self, index: Tensor, rows: Sequence[Tensor], widths: Sequence[int]) -> tuple[Tensor, ...]:
        """The tallies alone of the publications in places [g, P], as g edges hold them, per table [g, P, C + 1, 2].

        widths: of the parameters before them. rows: as for ``hold``.
        """
        pools = zip(self.all_tables, rows, widths, strict=True)
        return tuple(_rows_of(pool[..., width:], index, some) for pool, some, width in pools)

    def versions(self, index: Tensor, rows: Sequence[Tensor]) -> list[Tensor]:
        """Per table [g, P, C + 1], the versions of the rows in those places of those publications."""
        pools = zip(self.all_version, rows, strict=True)
        return [_rows_of(version.unsqueeze(2), index, some).squeeze(3) for version, some in pools]

    def give(self, places: Sequence[int], rows: Sequence[Tensor], state: ModelState, edge: int) -> None:
        """Start an edge of the state from the median of publications in these places; rows: as for ``hold``."""
        some = torch.tensor(places, device=state.device)
        state.dense[edge] = median(self.all_dense[some])
        for name, pool in self.all_statistics.items():
            state.buffers[name][edge] = median(pool[some])
        index = some.unsqueeze(0)
        versions = self.versions(index, rows)
        for table, pool, version, where in zip(state.tables, self.all_tables, versions, rows, strict=True):
            trained = version[0] > 0
            met = trained.any(0)
            found = _rows_of(pool, index, where)[0][:, met, : table.width]
            there = trained[:, met].unsqueeze(2)
            table.value[edge, met, : table.width] = median(found, there.expand_as(found))

    def pack(self, edges: Sequence[int], numbers: Sequence[int], wanted: Sequence[Tensor]) -> Parcel:
        """Pack m publications, by edge and number. wanted: which of their rows, per table [m, C + 1]."""
        where = torch.tensor([edges, numbers], dtype=torch.long, device=self.number.device)
        some = self.places(*where.unbind(0))
        rows = []
        for pool, version, which in zip(self.all_tables, self.all_version, wanted, strict=True):
            place, row = ((version[some] > 0) & which).nonzero(as_tuple=True)
            rows.append((place, row, pool[some[place], row]))
        return Parcel(
            self.all_dense[some],
            self.all_records[some],
            {name: pool[some] for name, pool in self.all_statistics.items()},
            [version[some] for version in self.all_version],
            rows,
        )

    def unpack(self, parcel: Parcel, guest: int) -> int:
        """Put the publications of a parcel into the places of guests, from that one on; returns the first of them."""
        first = self.depth * self.n + guest
        here = slice(first, first + len(parcel.dense))
        self.all_dense[here], self.all_records[here] = parcel.dense, parcel.records
        for name, statistic in parcel.statistics.items():
            self.all_statistics[name][here] = statistic
        for t, (place, row, values) in enumerate(parcel.rows):
            self.all_version[t][here], self.all_tables[t][here] = parcel.version[t], 0
            self.all_tables[t][first + place, row] = values
        return first

    def make_room(self, guests: int) -> None:
        """Make sure that there are places for so many guests."""
        missing = self.depth * self.n + guests - len(self.all_dense)
        if missing <= 0:
            return
        self.all_dense, self.all_records = _longer(self.all_dense, missing), _longer(self.all_records, missing)
        self.all_tables = [_longer(pool, missing) for pool in self.all_tables]
        self.all_version = [_longer(pool, missing) for pool in self.all_version]
        self.all_statistics = {name: _longer(pool, missing) for name, pool in self.all_statistics.items()}


def _rows_of(pool: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """Rows [g, P, C] of the models [g, P] of a pool [S, R, width], as [g, P, C, width]."""
    flat = index.unsqueeze(2) * pool.shape[1] + rows
    return pool.flatten(0, 1).index_select(0, flat.flatten()).view(*rows.shape, pool.shape[2])


def _longer(pool: Tensor, by: int) -> Tensor:
    return torch.cat([pool, pool.new_zeros(by, *pool.shape[1:])])
