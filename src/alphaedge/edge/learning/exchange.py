"""What one live edge asks of another, what it answers, and what the asker then holds (core.exchange, in life).

The answer has the whole dense part, and of each id table the rows of ids that both know and that changed since the
publication which the asker holds, or that the asker did not know then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.edge.learning.id_tables import IdRows


@final
@dataclass(frozen=True)
class PullRequest:
    """What an edge asks for: whatever is newer than ``holds``, of the ids that it knows by these keys.

    ``keys[t]`` are all keys that it knows of table t, ``fresh[t]`` those of them that it has known only since its last
    fetch: of these it wants the rows whatever their age.
    """

    holds: int
    keys: tuple[Tensor, ...]
    fresh: tuple[Tensor, ...]


@final
@dataclass(frozen=True)
class PulledModel:
    """A publication, as far as it was asked for: ``rows[t]`` [C, width] belong to ``keys[t]`` [C].

    row_bytes: of the rows, as they came.
    """

    number: int
    records: int
    dense: Tensor
    statistics: Mapping[str, Tensor]
    keys: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    row_bytes: int = 0


@final
@dataclass
class Publication:
    """What an edge has published last; number 0 is nothing yet."""

    number: int = 0
    records: int = 0
    dense: Tensor = field(default_factory=lambda: torch.empty(0))
    statistics: dict[str, Tensor] = field(default_factory=dict)

    def answer(self, request: PullRequest, tables: Sequence[IdRows]) -> PulledModel:
        """What an edge that asks gets."""
        keys, rows = [], []
        for table, wanted, fresh in zip(tables, request.keys, request.fresh, strict=True):
            row = table.rows(wanted)
            there = (row >= 0) & (table.version[row.clamp(min=0)] > 0) if table.size else row >= 0
            wanted, row = wanted[there], row[there]
            new = (table.version[row] > request.holds) | torch.isin(wanted, fresh)
            keys.append(wanted[new])
            rows.append(table.published[row[new]])
        return PulledModel(self.number, self.records, self.dense, self.statistics, tuple(keys), tuple(rows))


@final
class HeldModel:
    """What an edge holds of one neighbour: its dense part, and rows in the own numbering."""

    def __init__(self, dense: Tensor, tables: Sequence[IdRows]) -> None:
        self.number, self.records = -1, 0
        self.dense = torch.zeros_like(dense)
        self.statistics: dict[str, Tensor] = {}
        self.rows = [table.published.new_zeros(1, table.published.shape[1]) for table in tables]
        self.has = [torch.zeros(1, dtype=torch.bool) for _ in tables]

    def take(self, pull: PulledModel, tables: Sequence[IdRows]) -> None:
        """Hold what was pulled."""
        self.number, self.records, self.dense = pull.number, pull.records, pull.dense
        self.statistics = dict(pull.statistics)
        self.fit(tables)
        for t, table in enumerate(tables):
            row = table.rows(pull.keys[t])
            mine = row >= 0
            self.rows[t][row[mine]], self.has[t][row[mine]] = pull.rows[t][mine], True

    def drop(self, table: int, rows: Tensor) -> None:
        """Forget rows that now belong to other ids."""
        rows = rows[rows < len(self.has[table])]
        self.rows[table][rows], self.has[table][rows] = 0.0, False

    def fit(self, tables: Sequence[IdRows]) -> None:
        """Make room for the rows that the own tables have; the last is the scratch row."""
        for t, table in enumerate(tables):
            more = table.size + 1 - len(self.has[t])
            if more > 0:
                self.rows[t], self.has[t] = F.pad(self.rows[t], (0, 0, 0, more)), F.pad(self.has[t], (0, more))
