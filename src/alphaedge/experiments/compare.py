"""Scores of cells, and which of them differ."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from alphaedge.experiments.cell import Found
from alphaedge.metrics import interval95, mean
from alphaedge.report.html import NONE

# Like is compared with like: the literal reading with literal rivals.
RIVALS: Final[Mapping[str, Sequence[str]]] = {
    "alphaedge": ("noagg", "fedweight", "uniweight", "randps", "nops"),
    "alphaedge-paper": ("noagg", "fedweight", "uniweight", "randps-paper", "nops-paper"),
}
LEVEL: Final = 0.001  # scores closer than this count as level


class Score(NamedTuple):
    """The mean of some runs, half of its 95% interval, and the runs."""

    mean: float
    ci95: float | None
    runs: tuple[float, ...]


Scores = Mapping[str, Score]  # by method


def score(found: Found | None) -> Score | None:
    """A cell's score; None if it has none."""
    if found is None:
        return None
    return of_runs([s for s in found.per_seed if s is not None])


def of_runs(runs: Sequence[float]) -> Score | None:
    """The score of some runs."""
    middle = mean(runs)
    return None if middle is None else Score(middle, interval95(runs), tuple(runs))


def average(parts: Sequence[Score | None]) -> Score | None:
    """The score of an average over data sets, run by run; None if one is missing."""
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts) or len({len(p.runs) for p in known}) > 1:
        return None
    return of_runs([sum(runs) / len(runs) for runs in zip(*(p.runs for p in known), strict=True)])


def difference(one: Score, two: Score) -> Score | None:
    """The paired difference of two scores over the same runs."""
    if len(one.runs) != len(two.runs):
        return None
    return of_runs([a - b for a, b in zip(one.runs, two.runs, strict=True)])


def best_rival(scores: Scores, method: str = "alphaedge") -> str | None:
    """The best of the rivals of AlphaEdge, or of its literal reading."""
    return max((m for m in RIVALS[method] if m in scores), key=lambda m: scores[m].mean, default=None)


def significant(scores: Scores, method: str) -> bool:
    """Whether the method's paired difference to the best rival is clear of zero, whichever way."""
    rival = best_rival(scores, method)
    if rival is None or method not in scores:
        return False
    gap = difference(scores[method], scores[rival])
    return gap is not None and gap.ci95 is not None and abs(gap.mean) > gap.ci95


def plain(found: Score | None) -> str:
    """Mean ± interval."""
    if found is None:
        return NONE
    return f"{found.mean:.4f}" + (f" ± {found.ci95:.4f}" if found.ci95 is not None else "")


def written(scores: Scores, method: str, paper: float | None = None) -> str:
    """A table's entry: mean ± interval, bold for the best of the row, a star where AlphaEdge clearly differs."""
    if method not in scores:
        return NONE if paper is None else f"{NONE} ({paper:.3f})"
    text = plain(scores[method])
    if scores[method].mean == max(s.mean for s in scores.values()):
        text = f"**{text}**"
    if method in RIVALS and significant(scores, method):
        text += " ★"
    return text if paper is None else f"{text} ({paper:.3f})"
