"""What a run leaves behind: predictions and scores per batch, weights per aggregation, pulls, bytes, messages."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.exchange import Traffic

OTHERS: Final = -1  # all peers whose tallies alone are pulled: they may be many


@final
@dataclass
class PullCount:
    """Successful pulls of one edge from one peer; those of tallies alone count as one, of ``OTHERS``."""

    count: int = 0
    bytes: int = 0


@final
@dataclass
class Mix:
    """The shares of one mix: of the edge's own model and of each peer that took part or was silent."""

    aggregation: int
    moment: float
    own: float
    peers: dict[int, float]


@final
@dataclass(frozen=True)
class Progress:
    """How far a stack of runs is."""

    batches: int
    total: int
    score: float | None = None

    @classmethod
    def joined(cls, parts: "Sequence[Progress]") -> "Progress":
        """That of a fleet, from that of its shards. The score is a mean over batches."""
        if len(parts) == 1:
            return parts[0]
        scored = [(part.score, part.batches) for part in parts if part.score is not None]
        weight = sum(batches for _, batches in scored)
        score = sum(score * batches for score, batches in scored) / weight if weight else None
        return cls(sum(part.batches for part in parts), sum(part.total for part in parts), score)


@final
class RunLog:
    """The record of a stack of runs, filled by the engine: of the edges of a world, in their order. It is on the CPU.

    ``stopped`` is of all shards, by the number of the edge.
    """

    def __init__(self, edges: int, batches: int, size: int, score: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._score = score
        self.predictions = torch.full((batches, size), torch.nan, device="cpu")
        self.scores = torch.full((batches,), torch.nan, dtype=torch.float64, device="cpu")
        self.done = torch.zeros(batches, dtype=torch.bool, device="cpu")
        self.mixes: list[list[Mix]] = [[] for _ in range(edges)]
        self.pulls: list[dict[int, PullCount]] = [{} for _ in range(edges)]
        self.bytes = torch.zeros(edges, 3, dtype=torch.long, device="cpu")
        self.beyond_start = [0] * edges  # pulls so stale that they reached back to the initial model
        self.resets: list[list[int]] = [[] for _ in range(edges)]  # aggregations at which the mixed model started anew
        self.stopped: dict[int, str] = {}

    def add_predictions(self, places: Tensor, predictions: Tensor, labels: Tensor) -> None:
        """Note the predictions [M, B] of some batches and score them."""
        self.predictions[places] = predictions.float()
        self.scores[places] = self._score(predictions, labels)
        self.done[places] = True

    def add_pulls(
        self,
        edges: Sequence[int],
        peers: Sequence[Sequence[int]],
        present: Tensor,
        cost: Traffic,
        *,
        whole: bool = True,
    ) -> None:
        """Note pulls of edges from the peers that were present. whole: of models, not of tallies alone."""
        there, changed = present.tolist(), cost.changed.tolist()
        for g, edge in enumerate(edges):
            for p, peer in enumerate(peers[g]):
                if there[g][p]:
                    link = self.pulls[edge].setdefault(peer if whole else OTHERS, PullCount())
                    link.count += 1
                    link.bytes += changed[g][p]
        self.bytes[list(edges)] += torch.stack([part.sum(1) for part in cost], dim=1).cpu()

    def progress(self, total: int) -> Progress:
        """How far the runs are, with the mean score so far."""
        score = float(self.scores.nanmean())
        return Progress(int(self.done.sum()), total, None if math.isnan(score) else score)
