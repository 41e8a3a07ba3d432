"""The paper's figures: scores over time, and scores over delay, staleness, aggregation period and batch size."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from alphaedge.experiments.cell import BINS, Found
from alphaedge.experiments.compare import LEVEL, Score, average, score
from alphaedge.experiments.plan import SOME, SWEEPS, Plan, Sweep
from alphaedge.experiments.tables import Lookup, title
from alphaedge.report.figures import legend, panels, sweep
from alphaedge.report.html import NONE
from alphaedge.report.page import Block, Grid, Heading, Picture, Text

Points = dict[str, dict[float, Score]]  # method -> value -> score


def over_time(plan: Plan, get: Lookup) -> list[Block]:
    """Scores over time on a typical edge of each data set: the one whose score alone is the median."""
    figure, charts = panels(len(plan.data), "over_time")
    named = []
    for axes, data in zip(charts, plan.data, strict=True):
        alone = get(plan.table_cell(data, "noagg"))
        edge = _typical(alone) if alone is not None else None
        if alone is None or edge is None:
            axes.set_visible(False)
            continue
        named.append(f"{title(data)}: edge {edge}")
        lines = {}
        for method in SOME:
            found = get(plan.table_cell(data, method))
            curve = found.curves[edge] if found is not None and found.curves else []
            lines[method] = [((i + 0.5) / BINS, s, 0.0) for i, s in enumerate(curve) if s is not None]
        sweep(axes, lines, title=f"{title(data)}, edge {edge}", x="time, share of the stream", y="score", log=False)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    legend(figure, charts)
    alt = "Scores over time on a typical edge of each data set, a line per method"
    return [
        Heading("Scores over time on a typical edge"),
        Text(
            f"The edge whose score alone is the median of all ({'; '.join(named)}). Means over the runs in {BINS} "
            f"stretches of the stream. {_who_leads(plan, get)}"
        ),
        Picture("scores-over-time", alt, figure),
    ]


def _typical(alone: Found) -> int | None:
    known = {e: s for e, s in enumerate(alone.per_edge[0]) if s is not None} if alone.per_edge else {}
    if not known:
        return None
    middle = median(known.values())
    return min(known, key=lambda e: abs(known[e] - middle))


def _who_leads(plan: Plan, get: Lookup) -> str:
    parts = []
    for data in plan.data:
        alone, ours = (get(plan.table_cell(data, m)) for m in ("noagg", "alphaedge"))
        edge = _typical(alone) if alone is not None else None
        if alone is None or ours is None or edge is None or not ours.curves:
            continue
        pairs = [
            (a, b)
            for a, b in zip(ours.curves[edge], alone.curves[edge], strict=True)
            if a is not None and b is not None
        ]
        ahead = sum(a >= b for a, b in pairs)
        parts.append(f"{ahead} of {len(pairs)} on {title(data)}")
    return "AlphaEdge is at or above NoAgg in " + ", ".join(parts) + " stretches." if parts else ""


def figure_of(name: str, plan: Plan, get: Lookup) -> list[Block]:
    """One of the sweeps: a chart per data set, the average that the paper shows, a table, and the paper's claim."""
    what = SWEEPS[name]
    points, reasons = _points(plan, get, what)
    complete = len(plan.data) > 1
    figure, charts = panels(len(plan.data) + complete, name)
    log = what.field in ("every", "factor")
    for axes, data in zip(charts, plan.data, strict=False):
        sweep(axes, _lines(points[data]), title=title(data), x=what.axis, y="score", log=log)
    averages = _average(points)
    if complete:
        sweep(charts[-1], _lines(averages), title="Average", x=what.axis, y="score", log=log)
    legend(figure, charts)
    blocks: list[Block] = [
        Heading(what.title),
        Picture(name, f"{what.title}: scores of each method over {what.axis}, a chart per data set", figure),
        _grid(plan, what, points, averages if complete else {}, reasons),
        Text(_claim(name, points, averages)),
    ]
    return blocks


def _points(plan: Plan, get: Lookup, what: Sweep) -> tuple[dict[str, Points], dict[tuple[str, str, float], str]]:
    points: dict[str, Points] = {}
    reasons: dict[tuple[str, str, float], str] = {}
    for data in plan.data:
        points[data] = {m: {} for m in SOME}
        for method in SOME:
            for value in what.values:
                found = get(plan.figure_cell(data, method, **{what.field: value}))
                mean = score(found)
                if mean is not None:
                    points[data][method][value] = mean
                elif found is not None and found.notes:
                    reasons[data, method, value] = found.notes[0]
    return points, reasons


def _lines(points: Points) -> dict[str, list[tuple[float, float, float]]]:
    return {m: [(v, s.mean, s.ci95 or 0.0) for v, s in sorted(line.items())] for m, line in points.items()}


def _average(points: Mapping[str, Points]) -> Points:
    found: Points = {}
    for method in SOME:
        values = set.intersection(*(set(of[method]) for of in points.values())) if points else set()
        means = {v: average([of[method][v] for of in points.values()]) for v in sorted(values)}
        found[method] = {v: s for v, s in means.items() if s is not None}
    return found


def _grid(
    plan: Plan,
    what: Sweep,
    points: Mapping[str, Points],
    averages: Points,
    reasons: Mapping[tuple[str, str, float], str],
) -> Grid:
    body = []
    for data in plan.data:
        for method in SOME:
            row = [f"{title(data)}, {title(method)}"]
            for value in what.values:
                found = points[data][method].get(value)
                row.append(f"{found.mean:.4f}" if found else reasons.get((data, method, value), NONE))
            body.append(row)
    for method, line in averages.items():
        body.append([f"Average, {title(method)}", *(f"{line[v].mean:.4f}" if v in line else NONE for v in what.values)])
    return Grid([what.axis, *(f"{v:g}" for v in what.values)], body)


def _claim(name: str, points: Mapping[str, Points], averages: Points) -> str:
    """The paper's claim and whether it holds here; the average is over the data sets that have the point."""
    ours = averages["alphaedge"]
    if len(ours) < 2:
        return "Too few cells to check the paper's claim."
    span = f"from {min(ours):g} to {max(ours):g}, where every data set has a score"
    if name == "delay":
        lost = {d: _fall(of["alphaedge"]) for d, of in points.items() if len(of["alphaedge"]) > 1}
        right = all((x > LEVEL) != (d == "movielens") for d, x in lost.items())
        changes = ", ".join(f"{title(d)} {-x:+.4f}" for d, x in lost.items())
        return (
            f"The paper: delay hurts, except on Movielens. This **{_holds(right)}** here: over the delays of each data "
            f"set, AlphaEdge changes by {changes}."
        )
    if name == "staleness":
        falls = {m: _fall(line) for m, line in averages.items() if m != "noagg" and len(line) > 1}
        lead = {v: s.mean - averages["fedweight"][v].mean for v, s in ours.items() if v in averages["fedweight"]}
        low = all(fall > 0 for fall in falls.values())
        text = f"The paper: staleness lowers all and narrows the lead. On average ({span}) that it lowers all "
        text += f"**{_holds(low)}** (" + ", ".join(f"{title(m)} {-fall:+.4f}" for m, fall in falls.items()) + ")"
        if len(lead) > 1:
            narrow = lead[max(lead)] < lead[min(lead)]
            text += f"; that AlphaEdge's lead over FedWeight narrows **{_holds(narrow)}** "
            text += f"({lead[min(lead)]:+.4f} to {lead[max(lead)]:+.4f})"
        return text + "."
    means = [ours[v].mean for v in sorted(ours)]
    top = means.index(max(means))
    rises = all(a <= b + LEVEL for a, b in pairwise(means[: top + 1]))
    falls_again = all(a >= b - LEVEL for a, b in pairwise(means[top:]))
    right = rises and falls_again and 0 < top < len(means) - 1
    text = (
        f"The paper: scores rise, then fall. For AlphaEdge on average ({span}) this **{_holds(right)}** here: the best "
    )
    text += f"is at {sorted(ours)[top]:g}."
    last = max(ours)
    if name == "aggregation-period" and last in averages["noagg"]:
        gap = ours[last].mean - averages["noagg"][last].mean
        text += f" That a huge E equals NoAgg **{_holds(abs(gap) < LEVEL)}** at {last:g}: {gap:+.4f}."
    return text


def _fall(line: Mapping[float, Score]) -> float:
    return line[min(line)].mean - line[max(line)].mean


def _holds(right: bool) -> str:
    return "holds" if right else "does not hold"


def blocks_of(experiment: str, plan: Plan, get: Lookup) -> Sequence[Block]:
    """The blocks of any of the figures."""
    return over_time(plan, get) if experiment == "scores-over-time" else figure_of(experiment, plan, get)
