"""From keys to rows: what a batch of examples needs from the id tables."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.batch import compact
from alphaedge.core.model import Model

KEYS_AT_ONCE: Final = 1 << 14  # as numbers of Python, which take five times the memory; other threads wait for these
NO_KEY: Final = -1  # fills up the keys of a batch that has fewer ids than places
Inputs = Sequence[Tensor]  # [B, ...] in the order of the model's fields; ids are keys


def compact_keys(model: Model, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Replace the keys in inputs [B, ...] by places [1, B, ...]; also return the key of each place, per table [1, C].

    A key that occurs more than once has one place.
    """
    given = [(x.to(model.dtype) if x.is_floating_point() else x).unsqueeze(0) for x in inputs]
    return compact(given, [layout._replace(rows=NO_KEY) for layout in model.tables])


def enumerate_keys(model: Model, inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Replace the keys in inputs [B, ...] by places; also return the key of each place, per table [C].

    Every id has a place of its own: a prediction may use a key twice, and nothing has to be sorted.
    """
    given = [x.to(model.dtype) if x.is_floating_point() else x for x in inputs]
    keys = []
    for table in model.tables:
        parts = [given[f].reshape(-1) for f in table.fields]
        keys.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        start = 0
        for f, part in zip(table.fields, parts, strict=True):
            given[f] = torch.arange(start, start + len(part)).view(given[f].shape)
            start += len(part)
    return given, keys


def find_rows(keys: Tensor, find: Callable[[int], int | None]) -> Tensor:
    """Look up the rows of keys; -1 for a key without a row."""
    rows = torch.empty(keys.numel(), dtype=torch.long)
    for start in range(0, len(rows), KEYS_AT_ONCE):
        some = keys.flatten()[start : start + KEYS_AT_ONCE].tolist()
        rows[start : start + len(some)] = torch.tensor([-1 if (row := find(key)) is None else row for key in some])
    return rows.view(keys.shape)


def initial_rows(start: Tensor, keys: Tensor) -> Tensor:
    """Initial values of the rows of keys [..., width], from the initial table. They depend on the key, not the row."""
    return start[keys % len(start)]


@final
class RowLookup(NamedTuple):
    """The rows that a prediction reads.

    rows: row numbers, any number for an id without a row. known: which ids have a row; None if all do. initial: values
    for those that have none; None if all do.
    """

    rows: Tensor
    known: Tensor | None
    initial: Tensor | None

    @classmethod
    def of(cls, keys: Tensor, rows: Tensor, start: Tensor) -> "RowLookup":
        """Look up rows (-1 for none) of keys; start: the initial table."""
        return cls(rows, None, None) if bool((rows >= 0).all()) else cls.with_new_ids(keys, rows, start)

    @classmethod
    def with_new_ids(cls, keys: Tensor, rows: Tensor, start: Tensor) -> "RowLookup":
        """Like ``of``, where some ids may have no row."""
        return cls(rows.clamp(min=0), rows >= 0, initial_rows(start, keys))

    def gather(self, table: Tensor) -> Tensor:
        """Read the values [..., width] from a table, which must have at least one row."""
        if self.known is None or self.initial is None:
            return table[self.rows]
        return torch.where(self.known.unsqueeze(-1), table[self.rows], self.initial)
