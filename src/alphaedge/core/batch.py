"""Batches as the core sees them: inputs in the model's order, ids renumbered, rows named once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.core.model import TableLayout


@final
@dataclass(frozen=True)
class Batch:
    """k edges' batches, stacked.

    ``inputs`` are [k, B, ...] in the order of ``Model.fields``; an id field holds places 0..C-1 in ``rows`` instead
    of ids. ``rows`` has, for each id table, the edge's rows [k, C] that the batch names, each once, then scratch.
    """

    inputs: tuple[Tensor, ...]
    rows: tuple[Tensor, ...]
    labels: Tensor

    def __getitem__(self, index: Tensor) -> "Batch":
        """The batches of some of the edges, or some of a longer list of batches."""
        return Batch(
            tuple(x.index_select(0, index) for x in self.inputs),
            tuple(r.index_select(0, index) for r in self.rows),
            self.labels.index_select(0, index),
        )

    def split(self, counts: Sequence[int]) -> "list[Batch]":
        """The batches of the first few edges, of the next few, and so on, as views."""
        parts = [torch.split_with_sizes(x, list(counts)) for x in (*self.inputs, *self.rows, self.labels)]
        n = len(self.inputs)
        return [Batch(each[:n], each[n:-1], each[-1]) for each in zip(*parts, strict=True)]


def join(batches: Sequence[Batch], tables: Sequence[TableLayout]) -> Batch:
    """Several batches of each of k edges as one, end to end; rows that several name are named several times."""
    inputs = [list(batch.inputs) for batch in batches]
    for t, table in enumerate(tables):
        for number, batch in enumerate(batches):
            for field in table.fields:
                inputs[number][field] = batch.inputs[field] + number * batch.rows[t].shape[1]
    return Batch(
        tuple(torch.cat(x, dim=1) for x in zip(*inputs, strict=True)),
        tuple(torch.cat(x, dim=1) for x in zip(*(batch.rows for batch in batches), strict=True)),
        torch.cat([batch.labels for batch in batches], dim=1),
    )


def compact(inputs: Sequence[Tensor], tables: Sequence[TableLayout]) -> tuple[list[Tensor], list[Tensor]]:
    """Renumber the id fields of T batches: inputs [T, B, ...] -> (inputs with places, rows per table [T, C]).

    The places of batch t are numbered in the order of its ids; C is the number of id entries of a batch, so that
    shapes never depend on the data. Unused places name the scratch row.
    """
    inputs = list(inputs)
    rows = []
    for table in tables:
        parts = [inputs[f].reshape(len(inputs[f]), -1) for f in table.fields]
        ids = torch.cat(parts, dim=1).long()
        ordered, order = ids.sort(dim=1)
        fresh = torch.ones_like(ordered)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        place_in_order = fresh.cumsum(1) - 1
        places = torch.empty_like(ids).scatter_(1, order, place_in_order)
        rows.append(torch.full_like(ids, table.rows).scatter_(1, place_in_order, ordered))
        for f, part in zip(
            table.fields, torch.split_with_sizes(places, [p.shape[1] for p in parts], dim=1), strict=True
        ):
            inputs[f] = part.reshape(inputs[f].shape)
    return inputs, rows


def rows_of(batch: Batch, table: int, field: int) -> Tensor:
    """The row of each example's id in a field of an id table, [k, B, ...]."""
    places = batch.inputs[field]
    return batch.rows[table].gather(1, places.flatten(1)).view(places.shape)


def named_rows(batch: Batch, table: int, fields: Sequence[int]) -> Tensor:
    """The rows that each example names in the fields of an id table, [k, B, F]."""
    found = [rows_of(batch, table, field) for field in fields]
    return torch.cat([rows.reshape(*rows.shape[:2], -1) for rows in found], dim=2)
