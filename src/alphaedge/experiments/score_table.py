"""Tables of scores: one row per method, one column per data set, with the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from alphaedge.experiments.cell import Cell, CellResult
from alphaedge.experiments.paper_scores import STANDS_FOR
from alphaedge.experiments.plan import Plan
from alphaedge.experiments.scores import RIVALS, average, best_rival, cell_score, is_significant
from alphaedge.report.page import Block, Grid, Text
from alphaedge.report.styles import NO_NUMBER, STYLES
from alphaedge.scoring import Score

Lookup = Callable[[Cell], CellResult | None]

TITLES: Final[Mapping[str, str]] = {
    "completejourney": "Complete Journey",
    "completejourney-stores": "Complete Journey, 112 stores",
    "tafeng": "Ta-Feng",
    "tafeng-areas": "Ta-Feng, 8 areas",
    "movielens": "MovieLens-1M",
    "airquality": "AirQuality",
    "flights": "Flights",
    "parking": "Car parks",
    "online-retail": "Online retail",
    "expedia": "Expedia",
    "birthdays": "Births",
    "film-genres": "Film genres",
    "ml-100k": "MovieLens-100k",
    "world-one-cluster": "World: one cluster",
    "world-clusters": "World: clusters",
    "world-nothing-shared": "World: nothing shared",
    "world-drift": "World: drift",
    "world-shifting": "World: shifting",
    "prior": "Prior",
    "persistence": "Persistence",
    "pooled": "Pooled",
}
HOW_TO_READ: Final = (
    "Mean ± half the width of the 95% interval over the runs. In brackets: the paper's number, where it has one (its "
    "data sets A and B are private, so public data sets take their place). **Bold**: the best in a column. ★: the "
    "difference between AlphaEdge and its best rival, paired by run, is clear of zero, in either direction."
)


@final
@dataclass(frozen=True)
class MethodScores:
    """The scores of several methods in one setting, and for methods without a score the reason."""

    scores: dict[str, Score] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, method: str, result: CellResult | None) -> None:
        """Take in the result of a method's cell."""
        score = cell_score(result)
        if score is not None:
            self.scores[method] = score
        elif result is not None and result.notes:
            self.reasons[method] = result.notes[0]


@final
class Footnotes:
    """The reasons why entries of a table are empty, each listed once below it."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, reason: str | None) -> str:
        """Return the entry to show instead of a number."""
        if reason is None:
            return NO_NUMBER
        return f"{NO_NUMBER} [{self.numbers.setdefault(reason, len(self.numbers) + 1)}]"

    def text(self) -> str:
        """List all reasons, in the order of their numbers."""
        return "; ".join(f"[{number}] {reason}" for reason, number in self.numbers.items()) + "."


def title(name: str) -> str:
    """Return the display name of a data set or a method."""
    return STYLES[name].name if name in STYLES else TITLES[name]


def scores_on(
    plan: Plan, get: Lookup, data: str, methods: Sequence[str], model: str | None = None, **changes: object
) -> MethodScores:
    """Collect the scores of some methods on one data set, under one variation of a table."""
    column = MethodScores()
    for method in methods:
        column.add(method, get(plan.table_cell(data, method, model, **changes)))
    return column


def score_table(
    columns: Mapping[str, MethodScores], methods: Sequence[str], paper: Mapping[str, Mapping[str, float]] | None = None
) -> list[Block]:
    """Make a table of scores by data set, with their average, and footnotes for empty entries."""
    paper = paper or {}
    shown = {_column_title(d): (column, paper.get(d, {})) for d, column in columns.items()}
    if len(columns) > 1:
        means = {m: average([c.scores.get(m) for c in columns.values()]) for m in methods}
        whole = MethodScores({m: s for m, s in means.items() if s is not None})
        shown["Average"] = (whole, paper.get("average", {}) if len(columns) == 4 else {})
    notes = Footnotes()
    body = [
        [title(m), *(format_entry(column, m, notes, theirs.get(m)) for column, theirs in shown.values())]
        for m in methods
    ]
    return with_footnotes(Grid(["", *shown], body), notes)


def with_footnotes(grid: Grid, notes: Footnotes) -> list[Block]:
    """Return the table followed by its footnotes, if it has any."""
    return [grid, Text(notes.text())] if notes.numbers else [grid]


def format_score(score: Score | None) -> str:
    """Format a score as mean ± interval. The interval is left out if all runs are equal."""
    if score is None:
        return NO_NUMBER
    return f"{score.mean:.4f}" + (f" ± {score.ci95:.4f}" if score.ci95 else "")


def format_entry(column: MethodScores, method: str, notes: Footnotes, paper: float | None = None) -> str:
    """Format a table entry: mean ± interval, bold if best, a star if AlphaEdge clearly differs, the paper's number."""
    text = notes.mark(column.reasons.get(method))
    if method in column.scores:
        text = format_score(column.scores[method])
        if column.scores[method].mean == max(s.mean for s in column.scores.values()):
            text = f"**{text}**"
        if method in RIVALS and is_significant(column.scores, method):
            text += " ★"
    return text if paper is None else f"{text} ({paper:.3f})"


def verdict(columns: Mapping[str, MethodScores], min_lead: float) -> str:
    """Say whether AlphaEdge leads its best rival by at least ``min_lead`` on every data set, and if not, where."""
    sentences = []
    for method in ("alphaedge", "alphaedge-paper"):
        gaps = {}
        for data, column in columns.items():
            rival = best_rival(column.scores, method)
            if method in column.scores and rival is not None:
                gaps[data] = (column.scores[method].mean - column.scores[rival].mean, rival)
        if not gaps:
            sentences.append(f"There are no cells to judge {title(method)} by.")
            continue
        behind = [f"{title(d)} ({gap:+.4f} to {title(rival)})" for d, (gap, rival) in gaps.items() if gap < min_lead]
        where = f"**does not hold** on {', '.join(behind)}" if behind else "**holds**"
        missing = [title(d) for d in columns if d not in gaps]
        rest = f" (no cells: {', '.join(missing)})" if missing else ""
        sentences.append(f"For {title(method)} this {where}{rest}.")
    return " ".join(sentences)


def _column_title(data: str) -> str:
    """Name a data set, and the private one of the paper that it stands for."""
    stands = STANDS_FOR.get(data)
    return f"{title(data)} (for {stands})" if stands is not None and stands.startswith("Dataset") else title(data)
