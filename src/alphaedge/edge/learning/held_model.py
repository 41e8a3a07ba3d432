"""What an edge keeps of a neighbour's last publication, in its own numbering of id rows."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.aggregation import HeldModels
from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.edge.learning.other_rows import OtherRows
from alphaedge.edge.learning.publication import PulledModel


@final
class HeldModel:
    """A neighbour's model: its dense part, its rows in this edge's numbering, and rows of ids that have none here.

    Only an edge that asks for everything gets such ``others``. columns: how many numbers of a row are held, per table;
    all that are published, if it is not given.
    """

    def __init__(self, dense: Tensor, tables: Sequence[IdRows], columns: Sequence[int] | None = None) -> None:
        widths = [table.published.shape[1] for table in tables] if columns is None else columns
        shapes = list(zip(tables, widths, strict=True))
        self.number, self.records = -1, 0
        self.dense = torch.zeros_like(dense)
        self.statistics: dict[str, Tensor] = {}
        self.rows = [table.published.new_zeros(1, width) for table, width in shapes]
        self.has = [torch.zeros(1, dtype=torch.bool) for _ in tables]
        self.others = [OtherRows.none(width, table.published.dtype) for table, width in shapes]

    def take(self, pull: PulledModel, tables: Sequence[IdRows], everything: int | None = None) -> None:
        """Update it with what was pulled.

        everything: given if all rows were asked for, whatever ids the edge knows; the aggregation for which they were.
        Ids that appeared after the pull for it count from the next one on.
        """
        self.number, self.records, self.dense = pull.number, pull.records, pull.dense
        self.statistics = dict(pull.statistics)
        self.fit(tables)
        for t, table in enumerate(tables):
            keys, values = pull.keys[t], pull.rows[t]
            if everything is not None:
                keys, values = self.others[t].with_news(keys, values)
            row = table.rows(keys)
            mine = row >= 0
            if everything is not None:
                mine[mine.clone()] = table.named_since[row[mine]] <= everything
                self.others[t] = OtherRows(keys[~mine], values[~mine]).cut(table.numbering.capacity)
            self.rows[t][row[mine]], self.has[t][row[mine]] = values[mine], True

    def drop(self, table: int, rows: Tensor) -> None:
        """Clear rows that now belong to other ids."""
        rows = rows[rows < len(self.has[table])]
        self.rows[table][rows], self.has[table][rows] = 0.0, False

    def fit(self, tables: Sequence[IdRows]) -> None:
        """Grow to the size of this edge's tables; the last row is the scratch row."""
        for t, table in enumerate(tables):
            more = table.size + 1 - len(self.has[t])
            if more > 0:
                self.rows[t], self.has[t] = F.pad(self.rows[t], (0, 0, 0, more)), F.pad(self.has[t], (0, more))


def stacked(
    held: Sequence[HeldModel],
    present: Sequence[bool],
    tables: Sequence[IdRows],
    statistics: Mapping[str, Tensor],
    *,
    trained_rows: bool = True,
) -> HeldModels:
    """Held models as the core sees them. statistics: the edge's own, of those that are mixed.

    trained_rows: False if all are released models, whose rows have tallies alone.
    """
    for one in held:
        one.fit(tables)
    found = HeldModels(
        torch.stack([h.dense for h in held]),
        tuple(torch.stack([h.rows[t] for h in held]) for t in range(len(tables))),
        tuple(torch.stack([h.has[t] for h in held]) for t in range(len(tables))),
        {name: torch.stack([h.statistics.get(name, own) for h in held]) for name, own in statistics.items()},
        torch.arange(len(held)).unsqueeze(0),
        torch.tensor([present]),
    )
    return found if trained_rows else found.without_rows()
