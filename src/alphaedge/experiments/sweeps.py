"""The paper's figures over a setting: delay, staleness, aggregation period and batch size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from alphaedge.experiments.claims import claim
from alphaedge.experiments.compare import Footnotes, Row, Score, average, written
from alphaedge.experiments.grids import Lookup, title, with_notes
from alphaedge.experiments.plan import SOME, SWEEPS, Plan, Sweep
from alphaedge.report.figures import legend, panels, sweep
from alphaedge.report.page import Block, Grid, Heading, Picture, Text


@final
@dataclass(frozen=True)
class Line:
    """One data set, or the average of all: a row of methods at each value."""

    rows: Mapping[float, Row]

    def of(self, method: str) -> dict[float, Score]:
        """One method's scores, by value."""
        return {v: row.scores[method] for v, row in self.rows.items() if method in row.scores}


def figure_of(name: str, plan: Plan, get: Lookup) -> list[Block]:
    """One of the sweeps: a chart per data set, the average that the paper shows, a table, and the paper's claim."""
    what = SWEEPS[name]
    lines = {title(data): _line(plan, get, what, data) for data in plan.data}
    averages = _average(lines, what)
    drawn = {**lines, "Average": averages} if len(lines) > 1 else lines
    figure, charts = panels(len(drawn), name)
    for axes, (head, line) in zip(charts, drawn.items(), strict=True):
        points = {m: [(v, s.mean, s.ci95 or 0.0) for v, s in line.of(m).items()] for m in SOME}
        sweep(axes, points, title=head, x=what.axis, y="score", log=what.field in ("every", "factor"))
    legend(figure, charts)
    notes = Footnotes()
    body = [
        [f"{head}, {title(m)}", *(written(line.rows[v], m, notes) for v in what.values)]
        for head, line in drawn.items()
        for m in SOME
    ]
    scores = {data: {m: line.of(m) for m in SOME} for data, line in zip(plan.data, lines.values(), strict=True)}
    return [
        Heading(what.title),
        Picture(name, f"{what.title}: scores of each method over {what.axis}, a chart per data set", figure),
        *with_notes(Grid([what.axis, *(f"{v:g}" for v in what.values)], body), notes),
        Text(claim(name, scores, {m: averages.of(m) for m in SOME})),
        *([Text(_met_the_start(plan, get, what))] if name == "staleness" else []),
    ]


def _line(plan: Plan, get: Lookup, what: Sweep, data: str) -> Line:
    rows: dict[float, Row] = {}
    for value in what.values:
        rows[value] = Row()
        for method in SOME:
            rows[value].add(method, get(plan.figure_cell(data, method, **{what.field: value})))
    return Line(rows)


def _average(lines: Mapping[str, Line], what: Sweep) -> Line:
    """The average of all data sets, at the values where each has a score."""
    rows = {}
    for value in what.values:
        parts = {m: average([line.rows[value].scores.get(m) for line in lines.values()]) for m in SOME}
        rows[value] = Row({m: s for m, s in parts.items() if s is not None})
    return Line(rows)


def _met_the_start(plan: Plan, get: Lookup, what: Sweep) -> str:
    """How often a fetch wanted a model from before the start."""
    parts = []
    for data in plan.data:
        cells = {v: get(plan.figure_cell(data, "alphaedge", **{what.field: v})) for v in what.values if v}
        shares = [f"{f.beyond_start / f.fetches:.0%} at {v:g}" for v, f in cells.items() if f is not None and f.fetches]
        parts += [f"{title(data)} {', '.join(shares)}"] if shares else []
    found = "; ".join(parts) or "nothing can be said: no cells"
    return f"Fetches that wanted a model from before the start, and got the initial one: {found}."
