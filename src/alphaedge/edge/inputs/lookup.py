"""From keys to rows: what a batch of examples needs of the id tables."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

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


@final
class Wanted(NamedTuple):
    """Ids that a prediction needs: their rows, -1 for none, and what those without start from, if there are any."""

    rows: Tensor
    known: Tensor | None  # which have a row; None for all
    start: Tensor | None

    @classmethod
    def of(cls, keys: Tensor, rows: Tensor, start: Tensor) -> "Wanted":
        """Ids by their keys; start: the initial table."""
        return cls(rows, None, None) if bool((rows >= 0).all()) else cls.lacking(keys, rows, start)

    @classmethod
    def lacking(cls, keys: Tensor, rows: Tensor, start: Tensor) -> "Wanted":
        """Ids of which some have no row."""
        return cls(rows.clamp(min=0), rows >= 0, starting(start, keys))

    def values(self, table: Tensor) -> Tensor:
        """Their values [..., width] in a table, which has at least one row."""
        if self.known is None or self.start is None:
            return table[self.rows]
        return torch.where(self.known.unsqueeze(-1), table[self.rows], self.start)
