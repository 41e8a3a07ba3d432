"""Scores of an edge's predictions: batch by batch in the order of events, as the simulator scores them, and pooled."""

import math
from typing import final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.data.stream import METRICS, Task
from alphaedge.scoring import SCORES


@final
class ScorePoint(msgspec.Struct, frozen=True):
    """The score of one batch; None if it has only one class.

    event: the number of the batch's last event in its stream. time: of that event, in the data's units. at: when the
    batch was complete, in seconds since the start of the replay.
    """

    event: int
    time: float
    at: float
    score: float | None


@final
class StreamScores:
    """Scores the predictions of one stream, which may come in any order. Batches are cut from those that came."""

    def __init__(self, labels: Tensor, times: Tensor, task: Task, batch_size: int) -> None:
        self.points: list[ScorePoint] = []
        self._labels, self._times, self._metric = labels.float(), times, SCORES[METRICS[task]]
        self._batch_size = batch_size
        self._predictions = torch.full((len(labels),), torch.nan)
        self._known = np.zeros(len(labels), dtype=np.bool_)
        self._early: dict[int, int] = {}  # groups that came before their turn: first event and count
        self._next = 0  # all events before this one have a prediction or never will
        self._batch: list[int] = []  # events of the batch that is not full yet
        self._sum, self._count = 0.0, 0  # of scores

    @property
    def prediction_count(self) -> int:
        """The number of events with a prediction."""
        return int(self._known.sum())

    def add(self, first: int, count: int, predictions: NDArray[np.float32] | None, at: float) -> None:
        """Add the predictions of ``count`` events from event ``first`` on; None if their request failed."""
        if predictions is not None:
            self._predictions[first : first + count] = torch.from_numpy(predictions.copy())
            self._known[first : first + count] = True
        self._early[first] = count
        while (more := self._early.pop(self._next, 0)) > 0:
            self._append(self._next, self._next + more, at)
            self._next += more

    def close(self, at: float) -> None:
        """Score what still waits for events before it: no more will come."""
        for first, count in sorted(self._early.items()):
            self._append(first, first + count, at)
        self._early.clear()

    def _append(self, first: int, stop: int, at: float) -> None:
        self._batch += [e for e in range(first, stop) if self._known[e]]
        while len(self._batch) >= self._batch_size:
            events, self._batch = self._batch[: self._batch_size], self._batch[self._batch_size :]
            score = self._score(torch.tensor(events))
            if score is not None:
                self._sum, self._count = self._sum + score, self._count + 1
            self.points.append(ScorePoint(events[-1], float(self._times[events[-1]]), at, score))

    def _score(self, events: Tensor) -> float | None:
        score = float(self._metric(self._predictions[events].unsqueeze(0), self._labels[events].unsqueeze(0))[0])
        return None if math.isnan(score) else score

    def mean(self) -> float | None:
        """Return the mean over batches that have a score."""
        return self._sum / self._count if self._count else None

    def pooled(self) -> float | None:
        """Return the score of all predictions at once."""
        known = torch.from_numpy(self._known.nonzero()[0])
        return self._score(known) if len(known) else None
