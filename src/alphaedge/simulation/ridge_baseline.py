"""A ridge regression of one edge: the baseline that a data scientist would try first.

    w = (X'X + c I)^-1 X'(y - mean y)

X are the numbers of the events whose labels are revealed, and their ids and categories as one-hot vectors, each column
standardised by what is known by then. Only sums over the events are kept. It is solved anew whenever the revealed
events have grown by ``GROWTH``: more often at the start, where a solution changes fast.
"""

from collections.abc import Sequence
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from alphaedge.core.fields import WHOLE, Field
from alphaedge.data.stream import Stream

PENALTY: Final = 1.0  # c
GROWTH: Final = 0.05
MAX_COLUMNS: Final = 256  # a field with more values than are left is not used: its ids would cost more than they tell


def ridge_columns(fields: Sequence[Field]) -> list[Field]:
    """The fields that a ridge regression can use, within ``MAX_COLUMNS``."""
    found, left = [], MAX_COLUMNS
    for field in fields:
        if field.size <= left:
            found.append(field)
            left -= field.size
    return found


def ridge_predictions(fields: Sequence[Field], stream: Stream, labels: Tensor, known: Tensor) -> Tensor:
    """Predict every event from the labels revealed before it: ``known`` of them, which grows along the stream."""
    found, sums = torch.zeros(len(labels), dtype=torch.float64, device=labels.device), None
    revealed, counts = torch.unique_consecutive(known, return_counts=True)
    start = 0
    for count, events in zip(revealed.tolist(), counts.tolist(), strict=True):
        stop = start + events
        if count:
            sums = sums or _Sums(_design(fields, stream, 0, count))
            if count >= (1 + GROWTH) * sums.solved:
                sums.add(_design(fields, stream, sums.count, count), labels[sums.count : count].double())
                sums.solve()
            found[start:stop] = sums.predict(_design(fields, stream, start, stop))
        start = stop
    return found


def _design(fields: Sequence[Field], stream: Stream, start: int, stop: int) -> Tensor:
    """The inputs of some events, [events, columns]."""
    parts = []
    for field in fields:
        values = stream.inputs[field.name][start:stop]
        if field.kind in WHOLE:
            values = one_hot(values.long(), field.size)
        # An event may name several ids of one field: each is counted.
        parts.append(values.double() if values.dim() == 2 else values.sum(1).double())
    return torch.cat(parts, dim=1)


@final
class _Sums:
    """Sums over events from which the regression is solved; counted from the first ones, so that no digits are lost."""

    def __init__(self, first: Tensor) -> None:
        self._origin = first.nanmean(0).nan_to_num()
        self.count = self.solved = 0
        self._inputs = self._weights = self._with_labels = torch.zeros_like(self._origin)
        self._products = torch.zeros_like(torch.outer(self._origin, self._origin))
        self._labels = self._level = torch.zeros_like(self._origin).sum()

    def _shifted(self, inputs: Tensor) -> Tensor:
        return (inputs - self._origin).nan_to_num()  # a missing number says nothing

    def add(self, inputs: Tensor, labels: Tensor) -> None:
        """Add revealed events."""
        x = self._shifted(inputs)
        self.count += len(labels)
        self._inputs, self._labels = self._inputs + x.sum(0), self._labels + labels.sum()
        self._products, self._with_labels = self._products + x.T @ x, self._with_labels + x.T @ labels

    def solve(self) -> None:
        """Find the weights for all events so far."""
        mean, level = self._inputs / self.count, self._labels / self.count
        spread = self._products - self.count * torch.outer(mean, mean)
        deviation = (spread.diagonal() / self.count).clamp(min=0).sqrt()
        scale = torch.where(deviation > 1e-9, deviation, 1)
        gram = spread / torch.outer(scale, scale) + PENALTY * torch.ones_like(mean).diag()
        slope = (self._with_labels - self.count * level * mean) / scale
        self._weights = torch.linalg.solve(gram, slope) / scale
        self._level = level - mean @ self._weights
        self.solved = self.count

    def predict(self, inputs: Tensor) -> Tensor:
        """The outputs of some events."""
        found: Tensor = self._level + self._shifted(inputs) @ self._weights
        return found
