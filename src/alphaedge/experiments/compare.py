"""Scores of cells, and which of them differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from alphaedge.experiments.cell import CellResult
from alphaedge.metrics import interval95, mean
from alphaedge.report.numbers import NONE

# Like is compared with like: the literal reading with literal rivals.
RIVALS: Final[Mapping[str, Sequence[str]]] = {
    "alphaedge": ("noagg", "fedweight", "uniweight", "randps", "nops"),
    "alphaedge-paper": ("noagg", "fedweight", "uniweight", "randps-paper", "nops-paper"),
}
LEVEL: Final = 0.001  # scores closer than this count as level


class Score(NamedTuple):
    """The mean of some runs, half of its 95% interval, and the runs, by seed; None is a run without a score."""

    mean: float
    ci95: float | None
    runs: tuple[float | None, ...]


Scores = Mapping[str, Score]  # by method


@final
@dataclass(frozen=True)
class Row:
    """The methods of one comparison: their scores, and why others have none."""

    scores: dict[str, Score] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, method: str, found: CellResult | None) -> None:
        """Take in what a method's cell found."""
        mean = score(found)
        if mean is not None:
            self.scores[method] = mean
        elif found is not None and found.notes:
            self.reasons[method] = found.notes[0]


@final
class Footnotes:
    """Why cells of a table are empty, each reason once below it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, reason: str | None) -> str:
        """What stands in the cell instead of a number."""
        if reason is None:
            return NONE
        return f"{NONE} [{self.numbers.setdefault(reason, len(self.numbers) + 1)}]"

    def text(self) -> str:
        """All reasons, in the order of their numbers."""
        return "; ".join(f"[{number}] {reason}" for reason, number in self.numbers.items()) + "."


def score(found: CellResult | None) -> Score | None:
    """A cell's score; None if it has none."""
    return None if found is None else of_runs(found.per_seed)


def of_runs(runs: Sequence[float | None]) -> Score | None:
    """The score of some runs."""
    known = [s for s in runs if s is not None]
    middle = mean(known)
    return None if middle is None else Score(middle, interval95(known), tuple(runs))


def average(parts: Sequence[Score | None]) -> Score | None:
    """The score of an average over data sets, run by run; None if one is missing."""
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts) or len({len(p.runs) for p in known}) > 1:
        return None
    return of_runs([_mean(runs) for runs in zip(*(p.runs for p in known), strict=True)])


def _mean(runs: Sequence[float | None]) -> float | None:
    known = [s for s in runs if s is not None]
    return mean(known) if len(known) == len(runs) else None


def difference(one: Score, two: Score) -> Score | None:
    """The paired difference of two scores over the seeds that both have."""
    pairs = zip(one.runs, two.runs, strict=False)
    return of_runs([a - b for a, b in pairs if a is not None and b is not None])


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
    """Mean ± interval, if the runs differ at all."""
    if found is None:
        return NONE
    return f"{found.mean:.4f}" + (f" ± {found.ci95:.4f}" if found.ci95 else "")


def written(row: Row, method: str, notes: Footnotes, paper: float | None = None) -> str:
    """A table's entry: mean ± interval, bold for the best of them, a star where AlphaEdge clearly differs."""
    text = notes.mark(row.reasons.get(method))
    if method in row.scores:
        text = plain(row.scores[method])
        if row.scores[method].mean == max(s.mean for s in row.scores.values()):
            text = f"**{text}**"
        if method in RIVALS and significant(row.scores, method):
            text += " ★"
    return text if paper is None else f"{text} ({paper:.3f})"
