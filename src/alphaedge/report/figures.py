"""Figures of a simulation: scores over time and per edge, weights, and who pulls from whom.

A figure's label is the name of the function that drew it, by which the report finds its caption. If there is nothing
to show, the label says why.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from alphaedge.errors import check_number
from alphaedge.report.charts import make_chart, make_figure, make_message
from alphaedge.report.peer_drawings import (
    Floats,
    Names,
    add_colour_bar,
    draw_circle,
    draw_matrix,
    label_edges,
    separate_clusters,
)
from alphaedge.report.styles import FAINT, in_order, style_of
from alphaedge.scoring import student_t

Clusters = Sequence[int] | None  # the cluster of every edge, if known

MAX_EDGES_ON_CIRCLE: Final = 60  # with more, arrows would hide each other
LEGEND_BESIDE: Final[Mapping[str, Any]] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False}


def scores_over_time(scores: pl.DataFrame, metric: str, *, bins: int = 40) -> Figure:
    """Draw the mean score over the run, a line per method. The band is over seeds; with one seed, over edges."""
    check_number("bins", bins, low=1, whole=True)
    score, place = pl.col("score"), (pl.col("time") * bins).floor().clip(0, bins - 1)
    rows = scores.lazy().with_columns(score.cast(pl.Float64), bin=place).filter(score.is_finite())
    means = rows.group_by("method", "seed", "edge", "bin").agg(score.mean()).collect()
    if means.is_empty():
        return make_message("No batch has a score.")
    seeds, edges = means["seed"].n_unique(), means["edge"].n_unique()
    if seeds > 1:
        means = means.group_by("method", "seed", "bin").agg(score.mean())
    table = means.group_by("method", "bin").agg(mean=score.mean(), std=score.std(), count=score.len())
    figure, axes = make_chart("scores_over_time")
    ends, step = {}, max(1, bins // 8)
    for index, method in enumerate(in_order(table["method"].unique())):
        one, style = table.filter(pl.col("method") == method).sort("bin"), style_of(method)
        x, mean, std, count = one.select("bin", "mean", "std", "count").cast(pl.Float64).to_numpy().T
        x, half = (x + 0.5) / bins, _half_interval(std, count)
        every = (2 * index % step, step) if len(x) > step else 1  # staggered, so that markers do not overlap
        [line] = axes.plot(x, mean, linestyle=style.line, linewidth=1.8, markevery=every, **style.markers())
        axes.fill_between(x, mean - half, mean + half, color=style.colour, alpha=0.12, linewidth=0)
        ends[line] = -mean[-1]
    # With few seeds, bands are so wide that lines would look flat. The lines set the limits; bands may be cut off.
    low, high = np.quantile(table["mean"].to_numpy(), [0, 1])
    pad = 0.15 * (high - low) or 0.01
    axes.set(xlim=(0, 1), ylim=(low - pad, high + pad), ylabel=f"{metric}, mean over edges")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    over = f"{seeds} seeds" if seeds > 1 else f"{edges} edges (one seed)"
    axes.set_xlabel(f"share of the run; band: 95% interval of the mean over {over}")
    # The legend is in the order of the lines at the right edge, beside it.
    axes.legend(handles=sorted(ends, key=ends.__getitem__), title="by last score", handlelength=4, **LEGEND_BESIDE)
    return figure


def weight_matrix(
    weights: pl.DataFrame, method: str, *, clusters: Clusters = None, names: Names = None, moments: int = 4
) -> Figure:
    """Draw the share that every edge (row) gives every peer (column), from first mix to last, in the first seed."""
    check_number("moments", moments, low=1, whole=True)
    one, known, title = _first_seed(weights, method, clusters)
    if one.is_empty():
        return make_message(f"{style_of(method).name} did not mix any models.")
    moments = min(moments, one["aggregation"].n_unique())
    span = one["time"].to_numpy()
    times = np.linspace(span.max(), span.min(), moments)[::-1]  # a single moment is the end
    panels = [_shares_at(one, time, len(known)) for time in times]
    titles = ["first mix", *(f"{time:.0%} of the run" for time in times[1:-1]), "last mix"][-moments:]
    columns = int(np.ceil(np.sqrt(moments)))
    rows = -(-moments // columns)
    figure = make_figure((4.4 * columns + 1, 4.4 * rows + 0.6), "weight_matrix", title)
    norm = PowerNorm(0.5, vmin=0, vmax=max(np.nanmax(panel) for panel in panels))
    grid = [figure.add_subplot(rows, columns, place + 1) for place in range(moments)]
    images = [draw_matrix(axes, panel, known, norm, names) for axes, panel in zip(grid, panels, strict=True)]
    for axes, text in zip(grid, titles, strict=True):
        axes.set_title(text, fontsize=11, pad=18 if len(set(known)) > 1 else 6)
    add_colour_bar(figure, images[0], grid, "share in the mix")
    return figure


def who_pulls_from_whom(
    pulls: pl.DataFrame,
    method: str,
    *,
    clusters: Clusters = None,
    adversaries: Iterable[int] = (),
    names: Names = None,
) -> Figure:
    """Draw arrows from peers to the edges that pull their models, in the first seed (and its ``adversaries``)."""
    pulled = pulls.filter(pl.col("peer") != pl.col("edge"), pl.col("count") > 0)
    one, known, title = _first_seed(pulled, method, clusters)
    if one.is_empty():
        return make_message(f"{style_of(method).name} did not pull any models.")
    shares = np.zeros((len(known), len(known)))
    np.add.at(shares, (one["edge"].to_numpy(), one["peer"].to_numpy()), one["count"].to_numpy())
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    on_circle = len(known) <= MAX_EDGES_ON_CIRCLE
    hostile = sorted({edge for edge in adversaries if edge < len(known)})
    title += f"; adversaries: {'crosses' if on_circle else 'triangles'}" if hostile else ""
    figure = make_figure((8, 7), "who_pulls_from_whom", title)
    axes = figure.add_subplot()
    if on_circle:
        draw_circle(axes, shares, known, hostile, names)
        return figure
    norm = PowerNorm(0.5, vmin=0, vmax=shares.max())
    image = draw_matrix(axes, np.where(shares > 0, shares, np.nan), known, norm, names)
    places, below = np.argsort(np.argsort(known, kind="stable"))[hostile], axes.get_xaxis_transform()
    axes.plot(places, np.full(len(hostile), -0.012), "k^", markersize=5, clip_on=False, transform=below)
    add_colour_bar(figure, image, [axes], "share of what the edge pulled")
    return figure


def score_per_edge(summary: Mapping[str, Any]) -> Figure:
    """Draw one dot per edge and method, edges sorted by score within their cluster."""
    methods = in_order(summary["methods"])
    values = np.array([summary["methods"][name]["per_edge"] for name in methods], dtype=float)  # None becomes NaN
    values = np.ma.masked_invalid(values)
    if not values.count():
        return make_message("No edge has a score.")
    n, level = values.shape[1], values.mean(axis=0).filled(0)
    clusters = summary["clusters"] or [0] * n
    order = sorted(range(n), key=lambda edge: (clusters[edge], level[edge], edge))
    values = values[:, order]
    figure, axes = make_chart("score_per_edge")
    axes.vlines(range(n), values.min(axis=0), values.max(axis=0), FAINT, zorder=1)
    size, spacing = float(np.clip(30 / np.sqrt(n), 2.8, 6.5)), min(0.6 / len(methods), 0.01 * n)
    for index, name in enumerate(methods):
        shift = (index - (len(methods) - 1) / 2) * spacing  # so that equal dots do not hide each other
        axes.plot(np.arange(n) + shift, values[index], linestyle="", markersize=size, **style_of(name).markers())
    axes.set(xlim=(-0.7, n - 0.3), xlabel="edge", ylabel=summary["metric"])
    axes.grid(visible=False, axis="x")
    label_edges(axes, order, summary["names"])
    separate_clusters(axes, sorted(clusters), rows=False)
    axes.legend(**LEGEND_BESIDE)
    return figure


def _half_interval(std: Floats, count: Floats) -> Floats:
    """Return half the width of the mean's 95% interval; NaN for a single value."""
    quantile = np.array([student_t(int(n)) if n > 1 else np.nan for n in count.flat]).reshape(count.shape)
    return np.where(count > 1, quantile * std / np.sqrt(count), np.nan)


def _first_seed(table: pl.DataFrame, method: str, clusters: Clusters) -> tuple[pl.DataFrame, list[int], str]:
    """Return a method's rows of its first seed, the cluster of every edge (0 if unknown), and a title."""
    one = table.filter(pl.col("method") == method).filter(pl.col("seed") == pl.col("seed").min())
    n = 1 + (one.select(pl.max_horizontal("edge", "peer").max()).item() or 0)
    return one, list(clusters or [0] * n), f"{style_of(method).name}, seed {one['seed'].min()!r}"


def _shares_at(weights: pl.DataFrame, time: float, n: int) -> Floats:
    """Return the shares of every edge's latest mix at a time, or of its first if that is later; NaN where none."""
    reached = pl.col("aggregation").filter(pl.col("time") <= time).max()
    chosen = weights.group_by("edge").agg(pl.coalesce(reached, pl.col("aggregation").min()))
    rows = weights.join(chosen, on=["edge", "aggregation"])
    matrix = np.full((n, n), np.nan)
    matrix[rows["edge"].to_numpy(), rows["peer"].to_numpy()] = rows["share"].to_numpy()
    return matrix
