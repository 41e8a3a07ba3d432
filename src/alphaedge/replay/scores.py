"""Scores of what an edge predicted: batch by batch in the order of its events, as the simulator does it, and pooled."""

import math
from typing import Final, final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.data.stream import Task
from alphaedge.metrics import SCORES

METRICS: Final = {"classify": "AUC", "regress": "1-SMAPE"}


@final
class Point(msgspec.Struct, frozen=True):
    """The score of one batch; None if it has none (one class only). event: of the stream, the batch's last.

    time: of that event, in the data's units. at: seconds after the start of the replay when the batch was complete.
    """

    event: int
    time: float
    at: float
    score: float | None


@final
class Scores:
    """The predictions of one stream. They may come in any order; batches are made of those that came, in its order."""

    def __init__(self, labels: Tensor, times: Tensor, task: Task, batch_size: int) -> None:
        self.points: list[Point] = []
        self._labels, self._times, self._score, self._size = labels.float(), times, SCORES[METRICS[task]], batch_size
        self._predictions = torch.full((len(labels),), torch.nan)
        self._known = np.zeros(len(labels), dtype=np.bool_)
        self._early: dict[int, int] = {}  # first event and number of events of what came before its turn
        self._next = 0  # all events before this one have a prediction or never will
        self._batch: list[int] = []  # events of the batch that is not full yet
        self._sum, self._count = 0.0, 0  # of scores

    @property
    def predicted(self) -> int:
        """Events that have a prediction."""
        return int(self._known.sum())

    def add(self, first: int, count: int, predictions: NDArray[np.float32] | None, at: float) -> None:
        """Take in the predictions of some consecutive events; None if there will be none."""
        if predictions is not None:
            self._predictions[first : first + count] = torch.from_numpy(predictions.copy())
            self._known[first : first + count] = True
        self._early[first] = count
        while (more := self._early.pop(self._next, 0)) > 0:
            self._take(self._next, self._next + more, at)
            self._next += more

    def close(self, at: float) -> None:
        """No more will come: what waits for its turn is scored without the events before it."""
        for first, count in sorted(self._early.items()):
            self._take(first, first + count, at)
        self._early.clear()

    def _take(self, first: int, stop: int, at: float) -> None:
        self._batch += [e for e in range(first, stop) if self._known[e]]
        while len(self._batch) >= self._size:
            events, self._batch = self._batch[: self._size], self._batch[self._size :]
            found = self._of(torch.tensor(events))
            if found is not None:
                self._sum, self._count = self._sum + found, self._count + 1
            self.points.append(Point(events[-1], float(self._times[events[-1]]), at, found))

    def _of(self, events: Tensor) -> float | None:
        found = float(self._score(self._predictions[events].unsqueeze(0), self._labels[events].unsqueeze(0))[0])
        return None if math.isnan(found) else found

    def mean(self) -> float | None:
        """The mean over batches that have a score."""
        return self._sum / self._count if self._count else None

    def pooled(self) -> float | None:
        """The score of all predictions at once."""
        known = torch.from_numpy(self._known.nonzero()[0])
        return self._of(known) if len(known) else None
