"""What edges have published: the models that others may pull, as many generations back as somebody may read."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.start import median
from alphaedge.core.state import ModelState

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
class Publications:
    """The last ``depth`` publications of every edge; number 0 is the initial model.

    In an id table only rows trained since the last publication change (see core.exchange), so ``version`` says in
    which publication a row last changed, 0 for a row that its edge has never trained; such rows are zero here.

    All are in one pool, of ``depth * n`` places and some more for guests: publications of other shards.
    """

    def __init__(self, state: ModelState, depth: int, statistics: tuple[str, ...], guests: int = 0) -> None:
        n, device = len(state), state.device
        self.depth, self.n = depth, n
        size = depth * n + guests
        self.number = torch.zeros(n, dtype=torch.long, device=device)
        self.all_records = torch.zeros(size, dtype=torch.long, device=device)
        self.all_dense = state.dense.new_zeros(size, *state.dense.shape[1:])
        self.all_tables = [t.value.new_zeros(size, *t.value.shape[1:]) for t in state.tables]
        self.all_version = [t.value.new_zeros(size, t.value.shape[1], dtype=torch.int32) for t in state.tables]
        self.all_statistics = {
            name: state.buffers[name].new_zeros(size, *state.buffers[name].shape[1:]) for name in statistics
        }
        self.dense[:] = state.dense
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

    def publish(self, edges: Tensor, state: ModelState, trained: list[Tensor], records: Tensor) -> None:
        """Publish the named edges of the state; ``trained[t]`` [n, rows + 1] are their rows to publish anew."""
        for some in torch.split(edges, _BLOCK):
            self._publish(some, state, trained, records)

    def _publish(self, edges: Tensor, state: ModelState, trained: list[Tensor], records: Tensor) -> None:
        before = self.number[edges] % self.depth
        self.number[edges] += 1
        now = self.number[edges] % self.depth
        self.dense[now, edges] = state.dense[edges]
        self.records[now, edges] = records[edges]
        for name, pool in self.statistics.items():
            pool[now, edges] = state.buffers[name][edges]
        for table, pool, version, flags in zip(state.tables, self.tables, self.version, trained, strict=True):
            if self.depth > 1:
                pool[now, edges] = pool[before, edges]
                version[now, edges] = version[before, edges]
            which, row = flags[edges].nonzero(as_tuple=True)
            width = table.value.shape[-1]
            source = edges[which] * table.value.shape[1] + row
            target = now[which] * table.value.shape[0] * table.value.shape[1] + source
            pool.view(-1, width).index_copy_(0, target, table.value.view(-1, width).index_select(0, source))
            version.view(-1).index_copy_(0, target, self.number[edges][which].to(torch.int32))

    def places(self, edges: Tensor, numbers: Tensor) -> Tensor:
        """Places in the pool of publications, by edge and number."""
        return (numbers % self.depth) * self.n + edges

    def give(self, places: Sequence[int], state: ModelState, edge: int) -> None:
        """Start an edge of the state from the median of publications in these places."""
        some = torch.tensor(places, device=state.device)
        state.dense[edge] = median(self.all_dense[some])
        for name, pool in self.all_statistics.items():
            state.buffers[name][edge] = median(pool[some])
        for table, pool, version in zip(state.tables, self.all_tables, self.all_version, strict=True):
            trained = version[some] > 0
            rows = trained.any(0)
            found, there = pool[some][:, rows], trained[:, rows].unsqueeze(2)
            table.value[edge, rows] = median(found, there.expand_as(found))

    def pack(self, edges: Sequence[int], numbers: Sequence[int], wanted: Sequence[Tensor]) -> Parcel:
        """Pack publications, by edge and number. wanted: which of their rows, per table [rows + 1]."""
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


def _longer(pool: Tensor, by: int) -> Tensor:
    return torch.cat([pool, pool.new_zeros(by, *pool.shape[1:])])
