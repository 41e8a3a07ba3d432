"""Where random candidates come from: all edges, edges with the same hint, or the partial view of an edge."""

from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.internet.partial_views import PartialViews
from benchmarks.internet.selection import Draw
from benchmarks.internet.worlds import Ints


def from_everybody(edges: int) -> Draw:
    """A full directory: every edge knows all others."""
    return lambda rows, count, rng: rng.integers(edges, size=(len(rows), count), dtype=np.int32)


def from_views(views: PartialViews) -> Draw:
    """Partial views: an edge knows a few others at any time."""

    def draw(rows: Ints, count: int, rng: np.random.Generator) -> Ints:
        columns = rng.integers(views.known.shape[1], size=(len(rows), count))
        known: Ints = views.known[rows[:, None], columns]
        return known

    return draw


@final
@dataclass(frozen=True)
class Hints:
    """Hints in announcements: edges with the same hint come first. starts, counts: where edges of a hint stand."""

    hint: Ints
    ordered: Ints
    starts: Ints
    counts: Ints

    @classmethod
    def give(cls, cluster: Ints, hints: int, wrong: float, rng: np.random.Generator) -> "Hints":
        """Give each cluster one of so many hints; some edges have a wrong one."""
        hint = cluster % hints
        lost = rng.random(len(cluster)) < wrong
        hint = np.where(lost, rng.integers(hints, size=len(cluster)), hint).astype(np.int32)
        counts = np.bincount(hint, minlength=hints)
        return cls(hint, np.argsort(hint).astype(np.int32), np.cumsum(counts) - counts, counts)

    def draw(self, rows: Ints, count: int, rng: np.random.Generator) -> Ints:
        """See ``Draw``."""
        hint = self.hint[rows, None]
        place = self.starts[hint] + (rng.random((len(rows), count)) * self.counts[hint]).astype(np.int64)
        drawn: Ints = self.ordered[place]
        return drawn
