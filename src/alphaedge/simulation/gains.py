"""Gains over learning alone: by edge, and since when the gain so far stays above 0."""

from collections.abc import Sequence

from alphaedge.scoring import mean

Runs = Sequence[Sequence[float | None]]  # [run][edge]


def edge_gains(ours: Runs, alone: Runs) -> list[list[float | None]]:
    """The gain of each edge in each run, [edge][run]; None where it lacks one of the scores.

    >>> edge_gains([[0.75, 0.5]], [[0.5, None]])
    [[0.25], [None]]
    """
    pairs = zip(zip(*ours, strict=True), zip(*alone, strict=True), strict=True)
    return [[None if a is None or b is None else a - b for a, b in zip(*edge, strict=True)] for edge in pairs]


def mean_gains(ours: Runs, alone: Runs) -> list[float | None]:
    """The mean gain of each edge, over the runs in which it has both scores."""
    return [mean(edge) for edge in edge_gains(ours, alone)]


def pays_from(gains: Sequence[float | None]) -> int | None:
    """The place in a series of gains from which on their sum so far stays above 0; None if it does not at the end.

    >>> pays_from([0.0, 1.0, -2.0, 3.0, None]), pays_from([1.0, -1.0])
    (3, None)
    """
    total, since = 0.0, None
    for place, gain in enumerate(gains):
        total += gain or 0.0
        since = None if total <= 0 else place if since is None else since
    return since
