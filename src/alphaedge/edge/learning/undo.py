"""Undoing batches: one after which a model would no longer be finite, and those that wait for a mix."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from alphaedge.core.state import ModelState, TableState


@final
class ModelBefore:
    """What a batch may change in a model. rows: per id table, those that it may change."""

    def __init__(self, state: ModelState, rows: Sequence[Tensor]) -> None:
        self._state = state
        self._dense = [x.clone() for x in (state.dense, state.dense_m, state.dense_v, state.steps)]
        self._buffers = {name: buffer.clone() for name, buffer in state.buffers.items()}
        self._rows = list(rows)
        self._tables = [
            [x[0, some].clone() for x in _storage(table)] for table, some in zip(state.tables, self._rows, strict=True)
        ]

    def forget(self, table: int, rows: Tensor) -> None:
        """Leave rows of an id table as they are, whatever comes: they belong to other ids now."""
        left = ~torch.isin(self._rows[table], rows)
        self._rows[table] = self._rows[table][left]
        self._tables[table] = [storage[left] for storage in self._tables[table]]

    def is_intact(self) -> bool:
        """Whether the model is finite after the batch."""
        rows = [x[0, some] for t, some in zip(self._state.tables, self._rows, strict=True) for x in _storage(t)]
        return _all_finite(self._state, rows)

    def restore(self) -> None:
        """Make the model what it was before the batch."""
        state = self._state
        state.dense, state.dense_m, state.dense_v, state.steps = self._dense
        state.buffers = self._buffers
        for table, some, before in zip(state.tables, self._rows, self._tables, strict=True):
            for storage, rows in zip(_storage(table), before, strict=True):
                storage[0, some] = rows


def is_finite(state: ModelState) -> bool:
    """Whether a whole model is finite."""
    return _all_finite(state, [x for table in state.tables for x in _storage(table)])


def _all_finite(state: ModelState, rows: Sequence[Tensor]) -> bool:
    tensors = (state.dense, state.dense_m, state.dense_v, *state.buffers.values(), *rows)
    return all(bool(torch.isfinite(x).all()) for x in tensors)


def _storage(table: TableState) -> tuple[Tensor, Tensor, Tensor]:
    return table.value, table.m, table.v
