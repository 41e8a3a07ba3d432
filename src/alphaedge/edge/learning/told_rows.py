"""Which rows of its id tables a live edge tells its peers of, and when."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alphaedge.core.batch import Batch, named_rows
from alphaedge.core.compression import row_bytes
from alphaedge.core.disclosure import Disclosure
from alphaedge.core.methods import Method
from alphaedge.core.model import Model
from alphaedge.core.row_budget import within_budget
from alphaedge.core.state import ModelState
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.id_tables import IdRows


def make_tables(model: Model, method: Method, copies: Sequence[ModelState], capacities: Sequence[int]) -> list[IdRows]:
    """The id tables of an edge that has met no id yet. copies: its models."""
    disclosure = method.disclosure or Disclosure()
    local = disclosure.local_tables(model)
    return [
        IdRows(
            model.initial_table(t),
            [state.tables[t] for state in copies],
            capacity,
            width=layout.width,
            told=method.told(layout),
            min_users=disclosure.min_users,
            local=t in local,
        )
        for t, (layout, capacity) in enumerate(zip(model.tables, capacities, strict=True))
    ]


def note_users(
    tables: Sequence[IdRows], model: Model, method: Method, examples: Examples, batch: Batch, aggregation: int
) -> None:
    """Note who stands behind the rows of a learned batch, if an id is named only once enough users do."""
    disclosure = method.disclosure
    if disclosure is None or not disclosure.counts_users:
        return
    users = examples.first + torch.arange(len(examples.labels))
    if disclosure.user is not None:
        users = examples.inputs[model.fields.index(disclosure.user)].long()
    for t, (table, layout) in enumerate(zip(tables, model.tables, strict=True)):
        table.note_users(named_rows(batch, t, layout.fields)[0], users, aggregation)


def rows_due(tables: Sequence[IdRows], method: Method, number_bytes: int) -> list[Tensor]:
    """The rows of each id table that are to be published anew, as far as the budget for them goes.

    number_bytes: of one number that is trained.
    """
    due, budget = [table.due(method.min_change) for table in tables], method.publish_bytes
    if budget is None or not tables:
        return due
    sizes = [row_bytes(t.width, t.published.shape[1], number_bytes, method.precision) for t in tables]
    useful = [table.usefulness(rows) for table, rows in zip(tables, due, strict=True)]
    fit = within_budget(useful, [torch.zeros_like(rows) for rows in due], sizes, budget)
    return [rows[mask] for rows, mask in zip(due, fit, strict=True)]
