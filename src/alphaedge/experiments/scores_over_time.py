"""The paper's figure of scores over time on a typical edge."""

from statistics import median

from alphaedge.experiments.cell import CURVE_SEGMENTS, CellResult
from alphaedge.experiments.plan import MAIN_METHODS, Plan
from alphaedge.experiments.score_table import Lookup, title
from alphaedge.report.charts import add_legend, draw_lines, make_charts
from alphaedge.report.page import Block, Heading, Picture, Text
from alphaedge.scoring import mean


def scores_over_time(plan: Plan, get: Lookup) -> list[Block]:
    """Make the figure: one chart per data set, of the edge whose score under NoAgg is the median."""
    figure, charts = make_charts(len(plan.data), "over_time")
    leads = []
    for axes, data in zip(charts, plan.data, strict=True):
        results = {m: get(plan.table_cell(data, m)) for m in MAIN_METHODS}
        alone = results["noagg"]
        edge = _typical_edge(alone)
        if alone is None or edge is None:
            axes.set_visible(False)
            continue
        curves = {m: r.curves[edge] if r is not None and r.curves else [] for m, r in results.items()}
        name = alone.names[edge] if alone.names else str(edge)
        lines = {
            m: [((i + 0.5) / CURVE_SEGMENTS, s, 0.0) for i, s in enumerate(curve) if s is not None]
            for m, curve in curves.items()
        }
        head = f"{title(data)}, edge {name}"
        draw_lines(axes, lines, title=head, x="time, share of the stream", y="score", log=False)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        leads.append(f"{_segments_ahead(curves['alphaedge'], curves['noagg'])} on {title(data)} (edge {name})")
    add_legend(figure, charts)
    compared = f"AlphaEdge is at or above NoAgg in {', '.join(leads)}." if leads else "There are no cells to compare."
    return [
        Heading("Scores over time on a typical edge"),
        Text(
            "The typical edge is the one with the median score under NoAgg. Points are means over the runs in "
            f"{CURVE_SEGMENTS} equal segments of the stream. {compared} The paper's claim is that of Table 1."
        ),
        Picture("scores-over-time", "Scores over time on a typical edge of each data set, a line per method", figure),
    ]


def _typical_edge(alone: CellResult | None) -> int | None:
    """Return the edge whose mean score over the runs is the median of all edges."""
    if alone is None or not alone.per_edge:
        return None
    means = [mean(runs) for runs in zip(*alone.per_edge, strict=True)]
    known = {e: s for e, s in enumerate(means) if s is not None}
    if not known:
        return None
    middle = median(known.values())
    return min(known, key=lambda e: abs(known[e] - middle))


def _segments_ahead(ours: list[float | None], alone: list[float | None]) -> str:
    pairs = [(a, b) for a, b in zip(ours, alone, strict=False) if a is not None and b is not None]
    return f"{sum(a >= b for a, b in pairs)} of {len(pairs)} segments"
