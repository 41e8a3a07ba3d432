"""From keys to rows: what a batch of examples needs of the id tables."""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from alphaedge.core.batch import compact
from alphaedge.core.model import Model

NOBODY: Final = -1  # in place of a key, where a batch has fewer ids than places


def named(model: Model, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs [B, ...] with places instead of keys [1, B, ...], and the keys of those places, per table [1, C]."""
    given = [(x.to(model.dtype) if x.is_floating_point() else x).unsqueeze(0) for x in inputs]
    return compact(given, [layout._replace(rows=NOBODY) for layout in model.tables])


def placed(model: Model, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs [B, ...] with places instead of keys, and the keys of those places, per table [C].

    Every id has a place of its own: to predict, an id may come twice, and nothing needs to be sorted.
    """
    given = [x.to(model.dtype) if x.is_floating_point() else x for x in inputs]
    keys = []
    for table in model.tables:
        parts = [given[f].reshape(-1) for f in table.fields]
        keys.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        at = 0
        for f, part in zip(table.fields, parts, strict=True):
            given[f] = torch.arange(at, at + len(part)).view(given[f].shape)
            at += len(part)
    return given, keys


def find_rows(keys: Tensor, find: Callable[[int], int | None]) -> Tensor:
    """The rows of keys, -1 where a key has none."""
    found = [-1 if (row := find(key)) is None else row for key in keys.flatten().tolist()]
    return torch.tensor(found, dtype=torch.long).view(keys.shape)


def starting(start: Tensor, keys: Tensor) -> Tensor:
    """What rows of these keys start from [..., width]: it depends on the key alone, never on a row number."""
    return start[keys % len(start)]


def values(keys: Tensor, rows: Tensor, table: Tensor, start: Tensor) -> Tensor:
    """The values [..., width] of keys with these rows of a table; without a row, those that it would start from."""
    if not len(table):
        return starting(start, keys)
    known = rows >= 0
    if bool(known.all()):
        return table[rows]
    return torch.where(known.unsqueeze(-1), table[rows.clamp(min=0)], starting(start, keys))
