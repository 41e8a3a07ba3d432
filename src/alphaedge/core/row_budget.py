"""A budget of bytes for the rows of a publication: the most useful rows first, the others wait for the next one.

A row is the more useful to peers the more of its events they have not been told of and, among rows with equally many,
the farther it has moved since. Rows are taken by usefulness per byte until the budget is spent.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def usefulness(rows: Tensor, published: Tensor, width: int) -> Tensor:
    """How useful it is to publish rows [C, told], by what was last published of them; [C]. width: of parameters."""
    moved = (rows[:, :width] - published[:, :width]).norm(dim=1)
    events = (rows[:, width] - published[:, width]).abs() if rows.shape[1] > width else 0
    found: Tensor = events + moved / (1 + moved)
    return found


def within_budget(
    useful: Sequence[Tensor], owners: Sequence[Tensor], row_bytes: Sequence[int], budget: int
) -> list[Tensor]:
    """Which rows of several id tables fit into the budget of their owner, as a mask for each table.

    useful[t], owners[t] [C_t]: of each row. row_bytes[t]: of each row of that table. One row always fits: or a budget
    that is too small would keep everything at home for ever.
    """
    cost = torch.cat([torch.full_like(owner, each) for owner, each in zip(owners, row_bytes, strict=True)])
    owner = torch.cat(list(owners))
    order = (torch.cat(list(useful)) / cost).argsort(descending=True, stable=True)
    order = order[owner[order].argsort(stable=True)]
    spent = cost[order].cumsum(0)
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = owner[order][1:] != owner[order][:-1]
    before = torch.where(first, spent - cost[order], 0).cummax(0).values  # by the owners before
    fits = torch.empty_like(first)
    fits[order] = (spent - before <= budget) | first
    return list(torch.split(fits, [len(some) for some in owners]))
