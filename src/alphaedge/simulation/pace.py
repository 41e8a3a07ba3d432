"""Batch size and E of a table, where they are not named. Pure."""

from typing import Final, NamedTuple

from alphaedge.core.methods import Method
from alphaedge.data.stream import Task

ROUNDS: Final = 30  # aggregations that an edge should have
LARGE_ROUNDS: Final = 600  # from which on batches grow, since more aggregations no longer help and take time
SMALLEST_BATCH: Final = {"regress": 10, "classify": 20}  # in smaller ones, one class is often missing
USUAL_BATCH, LARGEST_BATCH = 50, 500
SMALLEST_PERIOD, LARGEST_PERIOD = 2, Method.aggregate_every


class Pace(NamedTuple):
    """Events per batch, and batches per aggregation (E)."""

    batch_size: int
    aggregate_every: int


def suited_pace(events: int, task: Task) -> Pace:
    """Return a pace with at least ``ROUNDS`` aggregations for an edge of so many events, where they allow it.

    >>> suited_pace(1500, "classify"), suited_pace(9000, "regress"), suited_pace(300_000, "classify")
    (Pace(batch_size=20, aggregate_every=2), Pace(batch_size=50, aggregate_every=5), Pace(batch_size=100, aggregate_every=5))
    """  # noqa: E501
    between = events // ROUNDS  # events between two aggregations, at most
    grown = max(USUAL_BATCH, min(LARGEST_BATCH, events // (LARGE_ROUNDS * LARGEST_PERIOD)))
    size = max(SMALLEST_BATCH[task], min(grown, between // LARGEST_PERIOD))
    return Pace(size, max(SMALLEST_PERIOD, min(LARGEST_PERIOD, between // size)))
