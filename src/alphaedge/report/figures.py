"""Pictures of a run: how well each method does, who weighs whom, who fetches from whom.

Figures are made without pyplot: nothing global is opened or left behind. A figure's label is the name of the
function that drew it, by which the page finds its caption; if there is nothing to show, the label says why.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import PowerNorm, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from alphaedge.errors import check_number
from alphaedge.metrics import student

Floats = NDArray[np.float64]
Clusters = Sequence[int] | None  # of every edge, if known


class Look(NamedTuple):
    """How a method appears in every picture; line and marker tell it apart where colour does not."""

    name: str
    colour: str
    marker: str
    line: str
    hollow: bool = False

    def marks(self) -> dict[str, Any]:
        """What matplotlib is told about its markers."""
        fill = "white" if self.hollow else self.colour
        return {"color": self.colour, "marker": self.marker, "markerfacecolor": fill, "label": self.name}


# Okabe and Ito's palette, which the colour-blind can tell apart; two as-printed variants are darker shades
LOOKS: Final[Mapping[str, Look]] = {
    "alphaedge": Look("AlphaEdge", "#D55E00", "o", "-"),
    "fedweight": Look("FedWeight", "#0072B2", "s", "--"),
    "uniweight": Look("UniWeight", "#56B4E9", "D", "-."),
    "randps": Look("RandPS", "#E69F00", "^", "-"),
    "nops": Look("NoPS", "#009E73", "v", "--"),
    "noagg": Look("NoAgg", "#000000", "X", ":"),
    "alphaedge-paper": Look("AlphaEdge (paper)", "#CC79A7", "o", "--", hollow=True),
    "randps-paper": Look("RandPS (paper)", "#8A5F00", "^", "--", hollow=True),
    "nops-paper": Look("NoPS (paper)", "#00543D", "v", ":", hollow=True),
}
GROUPS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#D55E00")
INK, FAINT, EMPTY = "#333333", "#DDDDDD", "#F1F1F1"
MOST_NUMBERED = 30  # edges; beyond, numbers along an axis run into each other
MOST_IN_CIRCLE = 60  # edges; beyond, arrows hide each other
BESIDE: Final[Mapping[str, Any]] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False}


def look(method: str) -> Look:
    """The look of a method; one that is not known keeps its name and is drawn grey."""
    return LOOKS.get(method, Look(method, "#777777", "P", "-"))


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of ``LOOKS``, then unknown ones by name."""
    return sorted(sorted(methods), key=lambda name: [*LOOKS, name].index(name))


def scores_over_time(scores: pl.DataFrame, metric: str, *, bins: int = 40) -> Figure:
    """Mean score per stretch of the run, a line per method; the band is over seeds, with one over edges."""
    check_number("bins", bins, low=1, whole=True)
    score, place = pl.col("score"), (pl.col("time") * bins).floor().clip(0, bins - 1)
    rows = scores.lazy().with_columns(score.cast(pl.Float64), bin=place).filter(score.is_finite())
    means = rows.group_by("method", "seed", "edge", "bin").agg(score.mean()).collect()
    if means.is_empty():
        return _nothing("No batch has a score.")
    seeds, edges = means["seed"].n_unique(), means["edge"].n_unique()
    if seeds > 1:
        means = means.group_by("method", "seed", "bin").agg(score.mean())
    table = means.group_by("method", "bin").agg(mean=score.mean(), std=score.std(), count=score.len())
    figure, axes = _chart("scores_over_time")
    ends, step = {}, max(1, bins // 8)
    for index, method in enumerate(in_order(table["method"].unique())):
        one, style = table.filter(pl.col("method") == method).sort("bin"), look(method)
        x, mean, std, count = one.select("bin", "mean", "std", "count").cast(pl.Float64).to_numpy().T
        x, half = (x + 0.5) / bins, _half_width(std, count)
        every = (2 * index % step, step) if len(x) > step else 1  # staggered, or markers cover each other
        [line] = axes.plot(x, mean, linestyle=style.line, linewidth=1.8, markevery=every, **style.marks())
        axes.fill_between(x, mean - half, mean + half, color=style.colour, alpha=0.12, linewidth=0)
        ends[line] = -mean[-1]
    # few seeds make bands so wide that lines would look flat: the lines set the limits, bands may be cut
    low, high = np.quantile(table["mean"].to_numpy(), [0, 1])
    pad = 0.15 * (high - low) or 0.01
    axes.set(xlim=(0, 1), ylim=(low - pad, high + pad), ylabel=f"{metric}, mean over edges")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    over = f"{seeds} seeds" if seeds > 1 else f"{edges} edges (one seed)"
    axes.set_xlabel(f"share of the run; band: 95% interval of the mean over {over}")
    # the legend follows the right ends of the lines, where the eye arrives
    axes.legend(handles=sorted(ends, key=ends.__getitem__), title="by last score", handlelength=4, **BESIDE)
    return figure


def weight_matrix(weights: pl.DataFrame, method: str, *, clusters: Clusters = None, moments: int = 4) -> Figure:
    """Share that every edge (row) gives every peer (column), from its first mix to its last; first seed."""
    check_number("moments", moments, low=1, whole=True)
    one, groups, title = _first_seed(weights, method, clusters)
    if one.is_empty():
        return _nothing(f"{look(method).name} did not mix any models.")
    moments = min(moments, one["aggregation"].n_unique())
    span = one["time"].to_numpy()
    times = np.linspace(span.max(), span.min(), moments)[::-1]  # a single one is the end
    panels = [_shares_at(one, time, len(groups)) for time in times]
    titles = ["first mix", *(f"{time:.0%} of the run" for time in times[1:-1]), "last mix"][-moments:]
    columns = int(np.ceil(np.sqrt(moments)))
    rows = -(-moments // columns)
    figure = _figure((4.4 * columns + 1, 4.4 * rows + 0.6), "weight_matrix", title)
    norm = PowerNorm(0.5, vmin=0, vmax=max(np.nanmax(panel) for panel in panels))
    grid = [figure.add_subplot(rows, columns, place + 1) for place in range(moments)]
    images = [_draw_matrix(axes, panel, groups, norm) for axes, panel in zip(grid, panels, strict=True)]
    for axes, text in zip(grid, titles, strict=True):
        axes.set_title(text, fontsize=11, pad=18 if len(set(groups)) > 1 else 6)
    _shades(figure, images[0], grid, "share in the mix")
    return figure


def who_fetches_from_whom(
    fetches: pl.DataFrame, method: str, *, clusters: Clusters = None, adversaries: Iterable[int] = ()
) -> Figure:
    """Arrows from a peer to the edge that fetches its model; first seed (``adversaries``: of that seed)."""
    fetched = fetches.filter(pl.col("peer") != pl.col("edge"), pl.col("count") > 0)
    one, groups, title = _first_seed(fetched, method, clusters)
    if one.is_empty():
        return _nothing(f"{look(method).name} did not fetch any models.")
    shares = np.zeros((len(groups), len(groups)))
    np.add.at(shares, (one["edge"].to_numpy(), one["peer"].to_numpy()), one["count"].to_numpy())
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    circle = len(groups) <= MOST_IN_CIRCLE
    bad = sorted({edge for edge in adversaries if edge < len(groups)})
    title += f"; adversaries: black {'crosses' if circle else 'triangles'}" if bad else ""
    figure = _figure((8, 7), "who_fetches_from_whom", title)
    axes = figure.add_subplot()
    if circle:
        _draw_circle(axes, shares, groups, bad)
        return figure
    norm = PowerNorm(0.5, vmin=0, vmax=shares.max())
    image = _draw_matrix(axes, np.where(shares > 0, shares, np.nan), groups, norm)
    places, below = np.argsort(np.argsort(groups, kind="stable"))[bad], axes.get_xaxis_transform()
    axes.plot(places, np.full(len(bad), -0.012), "k^", markersize=5, clip_on=False, transform=below)
    _shades(figure, image, [axes], "share of what the edge fetched")
    return figure


def sweep(
    axes: Axes, lines: Mapping[str, Sequence[tuple[float, float, float]]], *, title: str, x: str, y: str, log: bool
) -> None:
    """Draw one line a method through (value, score, half of its 95% interval) on given axes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for method in in_order(lines):
        at = np.array(lines[method], dtype=float).reshape(-1, 3)
        style = look(method)
        axes.plot(at[:, 0], at[:, 1], linestyle=style.line, linewidth=1.6, markersize=5, **style.marks())
        axes.fill_between(
            at[:, 0], at[:, 1] - at[:, 2], at[:, 1] + at[:, 2], color=style.colour, alpha=0.12, linewidth=0
        )
    values = sorted({point[0] for line in lines.values() for point in line})
    if log:
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.minorticks_off()
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def panels(count: int, label: str) -> tuple[Figure, list[Axes]]:
    """A figure with that many charts, two in a row; fill them, then call ``legend``."""
    rows = -(-count // 2)
    figure = _figure((10, 3.4 * rows), label)
    grid = figure.subplots(rows, 2 if count > 1 else 1, squeeze=False)
    charts = list(grid.flatten())
    for unused in charts[count:]:
        unused.set_visible(False)
    return figure, charts[:count]


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all charts of a figure."""
    handles = {str(h.get_label()): h for each in axes for h in each.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)


def score_per_edge(summary: Mapping[str, Any]) -> Figure:
    """One dot per edge and method, edges from low to high scores (within their cluster)."""
    methods = in_order(summary["methods"])
    values = np.array([summary["methods"][name]["per_edge"] for name in methods], dtype=float)  # None is NaN
    values = np.ma.masked_invalid(values)
    if not values.count():
        return _nothing("No edge has a score.")
    n, level = values.shape[1], values.mean(axis=0).filled(0)
    clusters = summary["clusters"] or [0] * n
    order = sorted(range(n), key=lambda edge: (clusters[edge], level[edge], edge))
    values = values[:, order]
    figure, axes = _chart("score_per_edge")
    axes.vlines(range(n), values.min(axis=0), values.max(axis=0), FAINT, zorder=1)
    size, apart = float(np.clip(30 / np.sqrt(n), 2.8, 6.5)), min(0.6 / len(methods), 0.01 * n)
    for index, name in enumerate(methods):
        beside = (index - (len(methods) - 1) / 2) * apart  # or equal dots would hide each other
        axes.plot(np.arange(n) + beside, values[index], linestyle="", markersize=size, **look(name).marks())
    axes.set(xlim=(-0.7, n - 0.3), xlabel="edge", ylabel=summary["metric"])
    axes.grid(visible=False, axis="x")
    axes.set_xticks(*_numbers(order))
    _part_clusters(axes, sorted(clusters), rows=False)
    axes.legend(**BESIDE)
    return figure


def save(figure: Figure, path: str | Path | BinaryIO) -> None:
    """Write a figure as a PNG file, or as SVG if the path says so."""
    kind = "svg" if isinstance(path, str | Path) and Path(path).suffix == ".svg" else "png"
    figure.savefig(path, format=kind, dpi=160, bbox_inches="tight", facecolor="white")


def _figure(size: tuple[float, float], label: str, title: str = "") -> Figure:
    figure = Figure(figsize=size, layout="constrained")
    figure.set_label(label)
    figure.suptitle(title, fontsize=12)
    return figure


def _nothing(why: str) -> Figure:
    return _figure((6, 0.6), why, why)


def _chart(label: str) -> tuple[Figure, Axes]:
    figure = _figure((9, 5), label)
    axes = figure.add_subplot(axisbelow=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    return figure, axes


def _half_width(std: Floats, count: Floats) -> Floats:
    """Half of a mean's 95% interval, NaN for one value."""
    quantile = np.array([student(int(n)) if n > 1 else np.nan for n in count.flat]).reshape(count.shape)
    return np.where(count > 1, quantile * std / np.sqrt(count), np.nan)


def _first_seed(table: pl.DataFrame, method: str, clusters: Clusters) -> tuple[pl.DataFrame, list[int], str]:
    """A method's rows of its first seed, the cluster of every edge (one for all if unknown), and a title."""
    one = table.filter(pl.col("method") == method).filter(pl.col("seed") == pl.col("seed").min())
    n = 1 + (one.select(pl.max_horizontal("edge", "peer").max()).item() or 0)
    return one, list(clusters or [0] * n), f"{look(method).name}, seed {one['seed'].min()!r}"


def _shares_at(weights: pl.DataFrame, time: float, n: int) -> Floats:
    """Every edge's latest mix at a time, its first if that is still to come; NaN for peers not in it."""
    reached = pl.col("aggregation").filter(pl.col("time") <= time).max()
    chosen = weights.group_by("edge").agg(pl.coalesce(reached, pl.col("aggregation").min()))
    rows = weights.join(chosen, on=["edge", "aggregation"])
    matrix = np.full((n, n), np.nan)
    matrix[rows["edge"].to_numpy(), rows["peer"].to_numpy()] = rows["share"].to_numpy()
    return matrix


def _numbers(order: Iterable[int]) -> tuple[Sequence[int], list[str]]:
    numbers = [str(edge) for edge in order]
    return (range(len(numbers)), numbers) if len(numbers) <= MOST_NUMBERED else ([], [])


def _draw_matrix(axes: Axes, matrix: Floats, groups: Sequence[int], norm: PowerNorm) -> AxesImage:
    order = np.argsort(groups, kind="stable")
    cells = np.ma.masked_invalid(matrix[np.ix_(order, order)])
    image = axes.imshow(cells, colormaps["YlGnBu"].with_extremes(bad=EMPTY), norm, interpolation="nearest")
    axes.set_xticks(*_numbers(order))
    axes.set_yticks(*_numbers(order))
    axes.set(xlabel="peer", ylabel="edge")
    axes.tick_params(length=0, labelsize=8 if len(order) <= 16 else 6)
    _part_clusters(axes, sorted(groups), rows=True)
    return image


def _part_clusters(axes: Axes, groups: Sequence[int], *, rows: bool) -> None:
    """Thin lines between clusters that stand one after another, and their names above."""
    names, starts, sizes = np.unique(groups, return_index=True, return_counts=True)
    for name, start, size in zip(names, starts, sizes, strict=True):
        for line in (axes.axvline, axes.axhline)[: 1 + rows] if start else ():
            line(start - 0.5, color=INK, linewidth=0.7)
        if 1 < len(names) <= 24:  # more would run into each other
            at, text = start + (size - 1) / 2, f"cluster {name}" if len(names) <= 5 else str(name)
            axes.annotate(text, (at, 1.015), xycoords=("data", "axes fraction"), ha="center", fontsize=8)


def _shades(figure: Figure, image: AxesImage, axes: list[Axes], label: str) -> None:
    percent = FuncFormatter(lambda share, _: f"{100 * share:.3g}%")
    figure.colorbar(image, ax=axes, shrink=0.7, label=label, format=percent, ticks=MaxNLocator(5))


def _draw_circle(axes: Axes, shares: Floats, groups: Sequence[int], bad: Sequence[int]) -> None:
    n, place = len(groups), np.argsort(np.argsort(groups, kind="stable"))
    names, group = np.unique(groups, return_inverse=True)
    gaps = len(names) if len(names) > 1 else 0  # an empty place after every cluster shows where it ends
    angle = np.pi / 2 - 2 * np.pi * (place + group) / (n + gaps)
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    colours = to_rgba_array([GROUPS[each % len(GROUPS)] for each in group])
    half = 1.28 if gaps else 1.2
    axes.set(aspect="equal", xlim=(-1.1 * half, 1.1 * half), ylim=(-half, half))
    axes.axis("off")
    dot = float(np.clip(50 / np.sqrt(n), 8, 18))  # points, of which the height of 7 inches has 504
    radius = dot / 2 * (2 * half / 504) + 0.01
    # stray fetches would hide the habits, but an equal split among all is always drawn
    edge, peer = np.nonzero(shares >= min(0.02, 0.5 / max(n - 1, 1)))
    share, start, end = shares[edge, peer][:, None], at[peer], at[edge]
    # towards the middle, where there is room, and to one side, so that the way back is another line
    bend = 0.33 * (start + end) + 0.12 * (end - start)[:, ::-1] * (-1, 1)
    reach = np.linalg.norm(end - bend, axis=1, keepdims=True)
    into, head = (end - bend) / reach, 0.025 + 0.06 * share
    first, last = radius / 2 / reach, 1 - (radius + head) / 2 / reach
    t = (first + (last - first) * np.linspace(0, 1, 24))[:, :, None]
    curves = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * bend[:, None] + t**2 * end[:, None]
    tip, back, side = end - into * radius, end - into * (radius + head), into[:, ::-1] * (-0.4, 0.4) * head
    paint = np.where(np.isin(peer, bad)[:, None], to_rgba_array("black"), colours[peer])
    paint[:, 3:] = 0.15 + 0.75 * np.minimum(1, 4 * share)
    axes.add_collection(LineCollection(list(curves), colors=paint, linewidths=0.4 + 6 * share[:, 0]))
    axes.add_collection(PolyCollection(list(np.stack([tip, back + side, back - side], 1)), facecolors=paint))
    for each, (x, y) in enumerate(at):
        marker, rim = ("X", "black") if each in bad else ("o", "white")
        axes.plot(x, y, marker, color=colours[each], markeredgecolor=rim, markersize=dot, markeredgewidth=1.5)
        axes.text(1.1 * x, 1.1 * y, str(each), ha="center", va="center", fontsize=9, color=INK)
    for index in range(gaps):
        x, y = 1.29 * np.cos(angle[group == index].mean()), 1.22 * np.sin(angle[group == index].mean())
        axes.text(x, y, f"cluster {names[index]}", ha="center", va="center", color=INK)
