"""The paper's figures over one setting: delay, staleness, aggregation period or batch size."""

from collections.abc import Mapping

from alphaedge.experiments.paper_claims import check_claim
from alphaedge.experiments.plan import MAIN_METHODS, SWEEPS, Plan, Sweep
from alphaedge.experiments.score_table import Footnotes, Lookup, MethodScores, format_entry, title, with_footnotes
from alphaedge.experiments.scores import average
from alphaedge.report.charts import add_legend, draw_lines, make_charts
from alphaedge.report.page import Block, Grid, Heading, Picture, Text
from alphaedge.scoring import Score

Series = Mapping[float, MethodScores]  # by the value of the varied setting


def sweep_blocks(name: str, plan: Plan, get: Lookup) -> list[Block]:
    """Make one figure: a chart per data set and of their average, a table, and a check of the paper's claim."""
    sweep = SWEEPS[name]
    series = {title(data): _series(plan, get, sweep, data) for data in plan.data}
    averages = _average(series, sweep)
    shown = {**series, "Average": averages} if len(series) > 1 else series
    figure, charts = make_charts(len(shown), name)
    for axes, (head, one) in zip(charts, shown.items(), strict=True):
        points = {m: [(v, s.mean, s.ci95 or 0.0) for v, s in _curve(one, m).items()] for m in MAIN_METHODS}
        log = sweep.field in ("aggregate_every", "batch_factor")
        draw_lines(axes, points, title=head, x=sweep.axis, y="score", log=log)
    add_legend(figure, charts)
    notes = Footnotes()
    body = [
        [f"{head}, {title(m)}", *(format_entry(one[v], m, notes) for v in sweep.values)]
        for head, one in shown.items()
        for m in MAIN_METHODS
    ]
    curves = {
        data: {m: _curve(one, m) for m in MAIN_METHODS} for data, one in zip(plan.data, series.values(), strict=True)
    }
    return [
        Heading(sweep.title),
        Picture(name, f"{sweep.title}: score of each method over {sweep.axis}, one chart per data set", figure),
        *with_footnotes(Grid([sweep.axis, *(f"{v:g}" for v in sweep.values)], body), notes),
        Text(check_claim(name, curves, {m: _curve(averages, m) for m in MAIN_METHODS})),
        *([Text(_pulls_before_start(plan, get, sweep))] if name == "staleness" else []),
    ]


def _series(plan: Plan, get: Lookup, sweep: Sweep, data: str) -> Series:
    series = {value: MethodScores() for value in sweep.values}
    for value, scores in series.items():
        for method in MAIN_METHODS:
            scores.add(method, get(plan.figure_cell(data, method, **{sweep.field: value})))
    return series


def _average(series: Mapping[str, Series], sweep: Sweep) -> Series:
    """Average over the data sets, at the values where each has a score."""
    averages = {}
    for value in sweep.values:
        means = {m: average([one[value].scores.get(m) for one in series.values()]) for m in MAIN_METHODS}
        averages[value] = MethodScores({m: s for m, s in means.items() if s is not None})
    return averages


def _curve(series: Series, method: str) -> dict[float, Score]:
    return {value: scores.scores[method] for value, scores in series.items() if method in scores.scores}


def _pulls_before_start(plan: Plan, get: Lookup, sweep: Sweep) -> str:
    """Say how often a pull asked for a model from before the start."""
    parts = []
    for data in plan.data:
        results = {v: get(plan.figure_cell(data, "alphaedge", **{sweep.field: v})) for v in sweep.values if v}
        shares = [f"{r.beyond_start / r.pulls:.0%} at {v:g}" for v, r in results.items() if r and r.pulls]
        parts += [f"{title(data)} {', '.join(shares)}"] if shares else []
    listed = "; ".join(parts) or "no cells"
    return f"Pulls that asked for a model from before the start and got the initial one: {listed}."
