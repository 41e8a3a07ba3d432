"""Publications of a live edge: what a peer asks for in a pull, and what it gets (``core.exchange``).

The answer has the whole dense part, and of each id table the rows of ids that both know and that changed since the
publication that the peer holds, or that the peer did not know then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.compression import Precision, compress_dense
from alphaedge.core.model import Model
from alphaedge.core.state import ModelState
from alphaedge.edge.learning.id_tables import IdRows

KEYS_AT_ONCE: Final = 1 << 14  # to look up: a peer may name many more


@final
@dataclass(frozen=True)
class PullRequest:
    """What an edge asks a peer for: what is newer than publication ``holds``, of the ids with these keys.

    ``keys[t]`` are all keys that it knows of table t. ``fresh[t]`` are those that it has known only since its last
    pull: it wants their rows whatever their age.
    """

    holds: int
    keys: tuple[Tensor, ...]
    fresh: tuple[Tensor, ...]


@final
@dataclass(frozen=True)
class PulledModel:
    """The part of a publication that was asked for: ``rows[t]`` [C, width] belong to ``keys[t]`` [C].

    row_bytes: size of the rows on the wire.
    """

    number: int
    records: int
    dense: Tensor
    statistics: Mapping[str, Tensor]
    keys: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    row_bytes: int = 0

    def tallies_alone(self, widths: Sequence[int]) -> "PulledModel":
        """The same without dense part and statistics, and of rows what comes after so many parameters."""
        rows = tuple(rows[:, width:] for rows, width in zip(self.rows, widths, strict=True))
        return replace(self, dense=self.dense[:0], statistics={}, rows=rows)


@final
@dataclass
class Publication:
    """The last publication of an edge; number 0 means that there is none yet.

    residual: what rounding has left out of the dense part (``core.compression``); the edge keeps it to itself.
    """

    number: int = 0
    records: int = 0
    dense: Tensor = field(default_factory=lambda: torch.empty(0))
    statistics: dict[str, Tensor] = field(default_factory=dict)
    residual: Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def of(
        cls, state: ModelState, model: Model, number: int, records: int, residual: Tensor, precision: Precision
    ) -> "Publication":
        """A model as a publication of that number; its rows are in the tables. residual: of the last publication."""
        statistics = {name: state.buffers[name][0].clone() for name in model.statistics()}
        made = compress_dense(state.dense[0].clone(), residual, precision)
        return cls(number, records, made.published, statistics, made.residual)

    def answer(self, request: PullRequest, tables: Sequence[IdRows]) -> PulledModel:
        """Answer a peer's request."""
        keys, rows = [], []
        for table, wanted, fresh in zip(tables, request.keys, request.fresh, strict=True):
            starts = range(0, max(1, len(wanted)), KEYS_AT_ONCE)
            found = [_changed(table, wanted[s : s + KEYS_AT_ONCE], fresh, request.holds) for s in starts]
            keys.append(torch.cat([key for key, _ in found]))
            rows.append(table.published[torch.cat([row for _, row in found])])
        return PulledModel(self.number, self.records, self.dense, self.statistics, tuple(keys), tuple(rows))

    def answer_everything(
        self, holds: int, tables: Sequence[IdRows], *, private: bool, most: int | None = None
    ) -> PulledModel:
        """Answer a peer that names no ids: all rows that have changed since publication ``holds``, up to ``most`` each.

        Only an edge with privacy on tells which ids it has rows of: ``private``.
        """
        keys, rows = [], []
        for table in tables:
            known = torch.tensor(table.numbering.keys_by_row() if private else [], dtype=torch.long)
            new = (table.version[: len(known)] > max(0, holds)).nonzero().flatten()[:most]
            new = new[known[new].argsort()]
            keys.append(known[new])
            rows.append(table.published[new])
        return PulledModel(self.number, self.records, self.dense, self.statistics, tuple(keys), tuple(rows))


def _changed(table: IdRows, wanted: Tensor, fresh: Tensor, holds: int) -> tuple[Tensor, Tensor]:
    """The keys, and their rows, that have changed since publication ``holds`` or are fresh."""
    row = table.rows(wanted)
    there = (row >= 0) & (table.version[row.clamp(min=0)] > 0) if table.size else row >= 0
    wanted, row = wanted[there], row[there]
    new = (table.version[row] > holds) | torch.isin(wanted, fresh)
    return wanted[new], row[new]
