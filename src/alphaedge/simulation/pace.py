"""Batch size of a table, where it is not named. Pure."""

from typing import Final

from alphaedge.core.methods import Method
from alphaedge.data.stream import Task

ROUNDS: Final = 30  # aggregations that an edge should have
LARGE_ROUNDS: Final = 600  # from which on batches grow, since more aggregations no longer help and take time
SMALLEST_BATCH: Final = {"regress": 10, "classify": 20}  # in smaller ones, one class is often missing
USUAL_BATCH, LARGEST_BATCH = 50, 500


def suited_batch_size(events: int, task: Task) -> int:
    """Return a batch size with at least ``ROUNDS`` aggregations for an edge of so many events, where they allow it.

    >>> suited_batch_size(1500, "regress"), suited_batch_size(9000, "regress"), suited_batch_size(300_000, "classify")
    (10, 50, 100)
    """
    every = Method.aggregate_every
    grown = max(USUAL_BATCH, min(LARGEST_BATCH, events // (LARGE_ROUNDS * every)))
    return max(SMALLEST_BATCH[task], min(grown, events // (ROUNDS * every)))
