"""Scores over several runs: means, intervals, averages, and whether two methods differ."""

from collections.abc import Mapping, Sequence
from typing import Final

from alphaedge.core.methods import RIVALS as LITERATURE
from alphaedge.experiments.cell import CellResult
from alphaedge.scoring import Score, mean, score_of_runs

# Like is compared with like: the paper's literal settings with rivals that use them too.
RIVALS: Final[Mapping[str, Sequence[str]]] = {
    "alphaedge": ("noagg", "fedweight", "uniweight", "randps", "nops", *LITERATURE),
    "alphaedge-paper": ("noagg", "fedweight", "uniweight", "randps-paper", "nops-paper"),
}

Scores = Mapping[str, Score]  # by method


def cell_score(result: CellResult | None) -> Score | None:
    """Return the score of a cell; None if it has none."""
    return None if result is None else score_of_runs(result.per_seed)


def average(parts: Sequence[Score | None]) -> Score | None:
    """Average scores over data sets, run by run; None if a data set has no score."""
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts) or len({len(p.runs) for p in known}) > 1:
        return None
    by_seed = zip(*(p.runs for p in known), strict=True)
    return score_of_runs([None if None in runs else mean(runs) for runs in by_seed])


def difference(one: Score, two: Score) -> Score | None:
    """Return the paired difference of two scores, over the seeds that have both."""
    pairs = zip(one.runs, two.runs, strict=False)
    return score_of_runs([a - b for a, b in pairs if a is not None and b is not None])


def best_rival(scores: Scores, method: str = "alphaedge") -> str | None:
    """Return the best of the rivals of ``alphaedge`` or ``alphaedge-paper``."""
    return max((m for m in RIVALS[method] if m in scores), key=lambda m: scores[m].mean, default=None)


def is_significant(scores: Scores, method: str) -> bool:
    """Tell whether the method's paired difference to its best rival excludes zero, in either direction."""
    rival = best_rival(scores, method)
    if rival is None or method not in scores:
        return False
    gap = difference(scores[method], scores[rival])
    return gap is not None and gap.ci95 is not None and abs(gap.mean) > gap.ci95
