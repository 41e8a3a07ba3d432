"""The paper's figure of scores over time on a typical edge."""

from statistics import median

from alphaedge.experiments.cell import BINS, CellResult
from alphaedge.experiments.grids import Lookup, title
from alphaedge.experiments.plan import SOME, Plan
from alphaedge.metrics import mean
from alphaedge.report.figures import legend, panels, sweep
from alphaedge.report.page import Block, Heading, Picture, Text


def over_time(plan: Plan, get: Lookup) -> list[Block]:
    """Scores over time on a typical edge of each data set: the one whose score alone is the median."""
    figure, charts = panels(len(plan.data), "over_time")
    leads = []
    for axes, data in zip(charts, plan.data, strict=True):
        found = {m: get(plan.table_cell(data, m)) for m in SOME}
        edge = _typical(found["noagg"])
        if edge is None:
            axes.set_visible(False)
            continue
        curves = {m: f.curves[edge] if f is not None and f.curves else [] for m, f in found.items()}
        alone = found["noagg"]
        name = alone.names[edge] if alone is not None and alone.names else str(edge)
        lines = {
            m: [((i + 0.5) / BINS, s, 0.0) for i, s in enumerate(curve) if s is not None] for m, curve in curves.items()
        }
        sweep(axes, lines, title=f"{title(data)}, edge {name}", x="time, share of the stream", y="score", log=False)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        leads.append(f"{_ahead(curves['alphaedge'], curves['noagg'])} on {title(data)} (edge {name})")
    legend(figure, charts)
    said = f"AlphaEdge is at or above NoAgg in {', '.join(leads)}." if leads else "Nothing can be said: no cells."
    return [
        Heading("Scores over time on a typical edge"),
        Text(
            f"The edge whose score alone is the median of all; means over the runs in {BINS} stretches of the stream. "
            f"{said} The paper's claim is that of Table 1."
        ),
        Picture("scores-over-time", "Scores over time on a typical edge of each data set, a line per method", figure),
    ]


def _typical(alone: CellResult | None) -> int | None:
    """The edge whose score, over the runs, is the median of all edges'."""
    if alone is None or not alone.per_edge:
        return None
    means = [mean([s for s in runs if s is not None]) for runs in zip(*alone.per_edge, strict=True)]
    known = {e: s for e, s in enumerate(means) if s is not None}
    if not known:
        return None
    middle = median(known.values())
    return min(known, key=lambda e: abs(known[e] - middle))


def _ahead(ours: list[float | None], alone: list[float | None]) -> str:
    pairs = [(a, b) for a, b in zip(ours, alone, strict=False) if a is not None and b is not None]
    return f"{sum(a >= b for a, b in pairs)} of {len(pairs)} stretches"
