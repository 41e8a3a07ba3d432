"""What privacy costs: the score against epsilon, beside learning alone and learning from peers without noise."""

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure

from alphaedge.experiments.cell import CellResult
from alphaedge.experiments.development_table import format_gain
from alphaedge.experiments.plan import EPSILONS, Plan, protected
from alphaedge.experiments.score_table import Lookup, MethodScores, title
from alphaedge.report.charts import add_legend, make_charts, style_axes
from alphaedge.report.page import Block, Grid, Heading, Picture, Text
from alphaedge.report.styles import INK, NO_NUMBER, STYLES
from alphaedge.scoring import mean
from alphaedge.simulation.gains import mean_gains

SMALLEST: Final = 5  # edges, whose gain is shown on its own
LOOKS: Final = {"event": ("-", "o"), "user": ("--", "s")}


def privacy_blocks(plan: Plan, get: Lookup) -> list[Block]:
    """Make the table and the picture: gains over learning alone by epsilon, for events and for users."""
    data_sets = plan.data_of("privacy")
    body = [row for data in data_sets for row in _rows(plan, get, data)]
    columns = ["", "alone", "no privacy", *(f"epsilon {e:g}" for e in EPSILONS)]
    return [
        Heading("What privacy costs"),
        Text(
            "Alone: the score of learning alone. All other columns: AlphaEdge's gain over it, paired by run, ± half of "
            "its 95% interval. With privacy, edges mix released models and hear noisy tallies, and predict from models "
            "of their own, which never leave. Epsilon is for each day, at a delta of 1e-6; it protects every event, or "
            "every user with all that counts of a user's day. Smallest: the mean gain of the "
            f"{SMALLEST} edges with the fewest events, and how many of them are above learning alone."
        ),
        Grid(columns, body),
        Picture("privacy-price", "Gain over learning alone against epsilon, one chart per data set", _draw(plan, get)),
    ]


def _rows(plan: Plan, get: Lookup, data: str) -> list[list[str]]:
    alone, open_ = get(plan.figure_cell(data, "noagg")), get(plan.figure_cell(data, "alphaedge"))
    rows = []
    for protect in protected(data):
        private = _private(plan, get, data, protect)
        scores = [_gain(alone, result) for result in (open_, *private)]
        rows.append([f"{title(data)}, {protect}s", _score(alone), *scores])
        small = [_smallest(alone, result) for result in (open_, *private)]
        rows.append([f"{title(data)}, {protect}s, smallest", NO_NUMBER, *small])
    return rows


def _private(plan: Plan, get: Lookup, data: str, protect: str) -> list[CellResult | None]:
    return [get(plan.figure_cell(data, "alphaedge", epsilon=e, protect=protect)) for e in EPSILONS]


def _score(result: CellResult | None) -> str:
    found = None if result is None else mean(result.per_seed)
    return NO_NUMBER if found is None else f"{found:.4f}"


def _gain(alone: CellResult | None, result: CellResult | None) -> str:
    column = MethodScores()
    column.add("noagg", alone)
    column.add("alphaedge", result)
    return format_gain(column.scores, "alphaedge") if "alphaedge" in column.scores else NO_NUMBER


def _smallest(alone: CellResult | None, result: CellResult | None) -> str:
    """The mean gain of the smallest edges, and how many of them are above learning alone."""
    if alone is None or result is None:
        return NO_NUMBER
    gains = mean_gains(result.per_edge, alone.per_edge)
    small = sorted(range(len(gains)), key=lambda edge: result.batches[edge])[:SMALLEST]
    known = [gain for edge in small if (gain := gains[edge]) is not None]
    return f"{sum(known) / len(known):+.4f}, {sum(g > 0 for g in known)} of {len(known)}" if known else NO_NUMBER


def _draw(plan: Plan, get: Lookup) -> Figure:
    data_sets = plan.data_of("privacy")
    figure, charts = make_charts(len(data_sets), "privacy-price")
    for axes, data in zip(charts, data_sets, strict=True):
        style_axes(axes)
        alone, open_ = get(plan.figure_cell(data, "noagg")), get(plan.figure_cell(data, "alphaedge"))
        for protect in protected(data):
            points = _points(alone, _private(plan, get, data, protect))
            line, marker = LOOKS[protect]
            label = f"each {protect} is protected"
            colour = STYLES["alphaedge"].colour
            axes.plot(*zip(*points, strict=True), linestyle=line, marker=marker, color=colour, label=label)
        best = _points(alone, [open_] * len(EPSILONS))
        if best:
            axes.axhline(best[0][1], color=STYLES["alphaedge"].colour, linestyle=":", label="no privacy")
        axes.axhline(0, color=INK, linewidth=1, label="learning alone")
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axes.minorticks_off()
        axes.set_title(title(data), fontsize=10)
        axes.set_xlabel("epsilon, for each day")
        axes.set_ylabel("gain over learning alone")
    add_legend(figure, charts)
    return figure


def _points(alone: CellResult | None, results: Sequence[CellResult | None]) -> list[tuple[float, float]]:
    base = None if alone is None else mean(alone.per_seed)
    found = [(e, None if r is None else mean(r.per_seed)) for e, r in zip(EPSILONS, results, strict=True)]
    return [] if base is None else [(e, score - base) for e, score in found if score is not None]
