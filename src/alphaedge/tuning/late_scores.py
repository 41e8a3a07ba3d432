"""The score of a run after its first events, and whether one score is clearly above another. Pure."""

import math
from collections.abc import Sequence

import polars as pl

from alphaedge.data.stream import Dataset
from alphaedge.scoring import mean
from alphaedge.simulation.run_result import RunResult


def late_score(run: RunResult, early: Dataset, size: int) -> float | None:
    """The mean over the honest edges of ``late_scores``; None for a run in which an edge had to stop."""
    return None if run.stopped else mean(late_scores(run, early, size))


def late_scores(run: RunResult, early: Dataset, size: int) -> list[float | None]:
    """The mean score of each honest edge on the batches of ``size`` events that begin after the events of ``early``."""
    events = pl.DataFrame({"edge": range(len(early.streams)), "events": [len(s) for s in early.streams]})
    late = run.scores.join(events, on="edge").filter(pl.col("batch") * size >= pl.col("events"))
    per_edge: dict[int, float | None] = dict(late.group_by("edge").agg(pl.col("score").mean()).rows())
    return [per_edge.get(edge) if honest else None for edge, honest in enumerate(run.honest)]


def is_clear(scores: Sequence[float | None], others: Sequence[float | None]) -> bool:
    """Whether the mean difference of two lists of edges' scores is above its standard error over the edges.

    >>> is_clear([0.7, 0.8, 0.6], [0.6, 0.7, 0.5]), is_clear([0.7, 0.8, 0.6], [0.6, 0.9, 0.7])
    (True, False)
    """
    gains = [a - b for a, b in zip(scores, others, strict=True) if a is not None and b is not None]
    if len(gains) < 2:
        return False
    middle = sum(gains) / len(gains)
    error = math.sqrt(sum((g - middle) ** 2 for g in gains) / (len(gains) - 1) / len(gains))
    return middle > error
