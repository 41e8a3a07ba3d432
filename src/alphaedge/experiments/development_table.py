"""The table of the development suite: scores, gains over learning alone, shares of the gap to pooled."""

from collections.abc import Mapping
from typing import Final

from alphaedge import scoring
from alphaedge.experiments.plan import DEVELOPMENT_METHODS, Plan
from alphaedge.experiments.score_table import Footnotes, Lookup, MethodScores, format_score, title, with_footnotes
from alphaedge.experiments.scores import average, difference
from alphaedge.report.page import Block, Grid, Heading, Text
from alphaedge.report.styles import NO_NUMBER
from alphaedge.scoring import LEVEL_MARGIN, Score, mean

MIXING: Final = tuple(m for m in DEVELOPMENT_METHODS if m not in ("noagg", "pooled"))


def development_blocks(plan: Plan, get: Lookup) -> list[Block]:
    """Make the table of all data sets of the suite, and of their average."""
    columns = {data: _scores(plan, get, data) for data in plan.development}
    notes = Footnotes()
    body = [
        [title(data), title(method), *_entries(column, method, notes)]
        for data, column in columns.items()
        for method in DEVELOPMENT_METHODS
    ]
    if len(columns) > 1:
        body += _average(columns, notes)
    return [
        Heading("Development suite"),
        Text(
            "Settings are chosen on these data, so no claim rests on them; decision 14 says which data are for "
            "reporting. Of the paper's data sets and their stand-ins, only events of the first quarter are used. Gain: "
            "score minus NoAgg's, paired by run, ± half of its 95% interval. Gap closed: the gain as a share of what "
            f"one model of all edges' events gains; none is given where that is less than {LEVEL_MARGIN}."
        ),
        *with_footnotes(Grid(["data set", "method", "score", "gain over NoAgg", "gap closed"], body), notes),
    ]


def gap_closed(scores: Mapping[str, Score], method: str) -> float | None:
    """Return the share of the gap between learning alone and pooled that a method closes; None without a gap."""
    if not {"noagg", "pooled", method} <= set(scores):
        return None
    gap = scores["pooled"].mean - scores["noagg"].mean
    return (scores[method].mean - scores["noagg"].mean) / gap if gap >= LEVEL_MARGIN else None


def _scores(plan: Plan, get: Lookup, data: str) -> MethodScores:
    column = MethodScores()
    for method in DEVELOPMENT_METHODS:
        column.add(method, get(plan.development_cell(data, method)))
    return column


def _entries(column: MethodScores, method: str, notes: Footnotes) -> list[str]:
    if method not in column.scores:
        return [notes.mark(column.reasons.get(method)), NO_NUMBER, NO_NUMBER]
    closed = gap_closed(column.scores, method) if method in MIXING else None
    return [
        format_score(column.scores[method]),
        format_gain(column.scores, method),
        NO_NUMBER if closed is None else f"{closed:.2f}",
    ]


def format_gain(scores: Mapping[str, Score], method: str) -> str:
    """Format the gain of a method over learning alone, paired by run."""
    if method == "noagg" or "noagg" not in scores:
        return NO_NUMBER
    gain = difference(scores[method], scores["noagg"])
    return NO_NUMBER if gain is None else scoring.format_gain(gain.mean, gain.ci95)


def _average(columns: Mapping[str, MethodScores], notes: Footnotes) -> list[list[str]]:
    """Average over the data sets that have all methods, and shares over those of them with a gap."""
    whole = [c for c in columns.values() if set(DEVELOPMENT_METHODS) <= set(c.scores)]
    if not whole:
        return []
    means = {m: average([c.scores[m] for c in whole]) for m in DEVELOPMENT_METHODS}
    column = MethodScores({m: s for m, s in means.items() if s is not None})
    rows = []
    for method in DEVELOPMENT_METHODS:
        entries = _entries(column, method, notes)
        shares = [share for c in whole if method in MIXING and (share := gap_closed(c.scores, method)) is not None]
        middle = mean(shares)
        entries[-1] = NO_NUMBER if middle is None else f"{middle:.2f} (of {len(shares)})"
        rows.append([f"**Average of {len(whole)}**", title(method), *entries])
    return rows
