"""Runs of partial views alone: entries about edges that are gone, and what is left of the other side of a partition."""

from typing import Final

import numpy as np

from benchmarks.internet.budget import CHURN_PER_MINUTE, SHUFFLE_SECONDS
from benchmarks.internet.partial_views import PartialViews

CHURN_PERIODS: Final = 60
HEALING_PERIODS: Final = 30
MAX_PERIODS: Final = 1_000


def measure(*, quick: bool) -> dict[str, float]:
    """The part of dead entries under churn; periods until halves have forgotten each other; crossing entries later."""
    edges, rng = 500 if quick else 10_000, np.random.default_rng(0)
    together, half = np.zeros(edges, np.int32), (np.arange(edges) % 2).astype(np.int32)
    views = PartialViews.start(edges, rng)
    for _ in range(CHURN_PERIODS):
        replaced = max(1, round(edges * CHURN_PER_MINUTE * SHUFFLE_SECONDS / 60))
        views.replace(rng.choice(edges, replaced, replace=False).astype(np.int32), rng)
        views.shuffle(together, rng)
    found = {"edges": float(edges), "dead": round(views.dead(), 4)}
    views, periods = PartialViews.start(edges, rng), 0
    while views.crossing(half) > 0 and periods < MAX_PERIODS:
        views.shuffle(half, rng)
        periods += 1
    for _ in range(HEALING_PERIODS):
        views.shuffle(together, rng)
    return found | {"forgotten after": float(periods), "crossing again": round(views.crossing(half), 4)}
