"""What learning from each other is worth: gains over learning alone by data set, by size of region, by age."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphaedge import scoring
from alphaedge.experiments.cell import CURVE_SEGMENTS, CellResult
from alphaedge.experiments.development_table import format_gain, gap_closed
from alphaedge.experiments.plan import WORTH_METHODS, Plan
from alphaedge.experiments.score_table import Lookup, MethodScores, format_score, title
from alphaedge.report.charts import make_charts, style_axes
from alphaedge.report.page import Block, Grid, Heading, Picture, Text
from alphaedge.report.styles import INK, NO_NUMBER, STYLES
from alphaedge.scoring import LEVEL_MARGIN, Score, mean
from alphaedge.simulation.gains import mean_gains, pays_from

OURS: Final = "alphaedge"
GAIN_TICKS: Final = (-0.1, -0.03, -0.01, 0.0, 0.01, 0.03, 0.1, 0.3)


class Worth(NamedTuple):
    """One data set. gains: per edge, over learning alone, mean of the runs, None for an edge without a score.

    events: per edge. ages: the mean gain of all edges in each segment of the stream. first_sight: the mean gain on
    events that name an id which is new to the edge. bytes: pulled per event.
    """

    scores: Mapping[str, Score]
    gains: list[float | None]
    events: list[int]
    ages: list[float | None]
    first_sight: float | None
    bytes: float

    @property
    def halves(self) -> tuple[float | None, float | None]:
        """The mean gain of the smaller half of the edges, and of the larger half."""
        order = sorted(range(len(self.events)), key=lambda e: self.events[e])
        middle = (len(order) + 1) // 2
        small, large = (mean([self.gains[e] for e in some]) for some in (order[:middle], order[middle:]))
        return small, large

    @property
    def pays_from(self) -> float | None:
        """The share of the stream after which the gain so far stays above 0; None if it is not above 0 at the end."""
        since = pays_from(self.ages)
        return None if since is None else (since + 1) / len(self.ages)


def worth_blocks(plan: Plan, get: Lookup) -> list[Block]:
    """Make the table, and the pictures: all gains at a glance, by size of region, and by age."""
    found, missing = dict[str, Worth](), list[str]()
    for data in plan.data_of("worth"):
        one = _worth(plan, get, data)
        if one is None:
            missing.append(title(data))
        else:
            found[data] = one
    head = Heading("What it is worth")
    if not found:
        return [head, Text("There are no cells to compare.")]
    columns = ["", "alone", "AlphaEdge", "gain", "regions above alone", "smaller half", "larger half"]
    columns += ["new ids", "pays from", "gap closed", "bytes per event"]
    return [
        head,
        Text(
            "Gain: AlphaEdge's score minus that of learning alone, paired by run, ± half of its 95% interval. Smaller "
            "and larger half: the mean gain of the regions with fewer and with more events. New ids: the gain on "
            "events that name an id which the region has not met before. Pays from: the share of the stream after "
            "which the gain so far stays above 0. Gap closed: the gain as a share of what one model gains that sees "
            f"the events of all regions, if that is at least {LEVEL_MARGIN}. Bytes: what a region pulls for each of "
            "its own events. Settings were chosen on the first quarters of the paper's data sets and their stand-ins: "
            "the streams of MovieLens-1M and AirQuality contain it, streams that are cut begin after it."
        ),
        Grid(columns, [_row(data, one) for data, one in found.items()]),
        *([Text(f"Without finished cells: {', '.join(missing)}.")] if missing else []),
        Picture("gain-by-region", "The gain of each region over learning alone, and the mean", _overview(found)),
        *_pictures(found),
    ]


def _worth(plan: Plan, get: Lookup, data: str) -> Worth | None:
    results = {m: get(plan.table_cell(data, m)) for m in WORTH_METHODS}
    alone, ours = results["noagg"], results[OURS]
    if alone is None or ours is None or not alone.per_edge or not ours.per_edge:
        return None
    column = MethodScores()
    for method, result in results.items():
        column.add(method, result)
    size = plan.table_cell(data, OURS).settings().size
    events = [count * size for count in ours.batches]
    return Worth(
        scores=column.scores,
        gains=mean_gains(ours.per_edge, alone.per_edge),
        events=events,
        ages=_ages(ours, alone),
        first_sight=mean(mean_gains(ours.first_sight, alone.first_sight)),
        bytes=ours.bytes[2] / max(1, len(ours.per_edge) * sum(events)),
    )


def _ages(ours: CellResult, alone: CellResult) -> list[float | None]:
    """The mean gain of all edges in each segment of their streams."""
    curves = list(zip(ours.curves, alone.curves, strict=True))
    segments: list[list[float]] = [[] for _ in range(CURVE_SEGMENTS)]
    for one, two in curves:
        for segment, (a, b) in zip(segments, zip(one, two, strict=True), strict=True):
            if a is not None and b is not None:
                segment.append(a - b)
    return [mean(segment) for segment in segments]


def _row(data: str, one: Worth) -> list[str]:
    known = [g for g in one.gains if g is not None]
    closed = gap_closed(one.scores, OURS)
    since = one.pays_from
    return [
        title(data),
        format_score(one.scores.get("noagg")),
        format_score(one.scores.get(OURS)),
        format_gain(one.scores, OURS) if OURS in one.scores else NO_NUMBER,
        f"{sum(g > 0 for g in known)} of {len(known)}",
        *(_signed(half) for half in one.halves),
        _signed(one.first_sight),
        NO_NUMBER if since is None else f"{since:.0%}",
        NO_NUMBER if closed is None else f"{closed:.2f}",
        f"{one.bytes:,.0f}",
    ]


def _signed(value: float | None) -> str:
    return NO_NUMBER if value is None else scoring.format_gain(value)


def _overview(found: Mapping[str, Worth]) -> Figure:
    """Draw all gains at a glance: a row for each data set, a point for each region, a line at the mean."""
    colour = STYLES[OURS].colour
    figure = Figure(figsize=(7.5, 0.8 + 0.45 * len(found)), layout="constrained")
    axes = figure.add_subplot(axisbelow=True)
    style_axes(axes)
    names = []
    for row, (data, one) in enumerate(found.items()):
        known = [gain for gain in one.gains if gain is not None]
        # Points of one row are set apart in turn, so that equal gains are not taken for one.
        heights = [row + (place % 5 - 2) * 0.07 for place in range(len(known))]
        axes.plot(known, heights, "o", color=colour, markersize=4.5, alpha=0.6, markeredgewidth=0)
        average = mean(known)
        if average is not None:
            axes.plot([average, average], [row - 0.3, row + 0.3], color=INK, linewidth=2)
        names.append(f"{title(data)}, {len(known)} regions")
    axes.axvline(0, color=INK, linewidth=1)
    # Gains of small regions spread over two orders of magnitude: linear around 0, logarithmic beyond.
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.8)
    ticks = [t for t in GAIN_TICKS if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{t:+g}" if t else "0" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("learning alone is better  ←  gain in score over learning alone  →  learning together is better")
    return figure


def _pictures(found: Mapping[str, Worth]) -> list[Block]:
    """Draw a chart for each data set: a point for each region by its size, and the gain over time."""
    colour = STYLES[OURS].colour
    by_size, charts = make_charts(len(found), "gain_by_size", 2.6)
    for axes, (data, one) in zip(charts, found.items(), strict=True):
        points = [(n, g) for n, g in zip(one.events, one.gains, strict=True) if g is not None and n]
        axes.plot([n for n, _ in points], [g for _, g in points], "o", color=colour, markersize=4, alpha=0.8)
        axes.set_xscale("log")
        _label(axes, data, "events of the region")
    by_age, charts = make_charts(len(found), "gain_by_age", 2.6)
    for axes, (data, one) in zip(charts, found.items(), strict=True):
        line = [((i + 0.5) / CURVE_SEGMENTS, g) for i, g in enumerate(one.ages) if g is not None]
        axes.plot([x for x, _ in line], [g for _, g in line], color=colour, linewidth=1.6)
        _label(axes, data, "time, share of the stream")
    return [
        Heading("By size of region", 3),
        Text("One point for each region: how much its score gains over learning alone, by the number of its events."),
        Picture("gain-by-size", "The gain of each region over learning alone, by its number of events", by_size),
        Heading("Over time", 3),
        Text("The mean gain of all regions over learning alone, along the stream."),
        Picture("gain-by-age", "The mean gain over learning alone, along the stream of each data set", by_age),
    ]


def _label(axes: Axes, data: str, x: str) -> None:
    style_axes(axes)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_title(title(data), fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel("gain over alone")
