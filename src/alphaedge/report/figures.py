"""Pictures of a run: how well each method does, who weighs whom, who fetches from whom.

Every function takes tables and gives a Figure that explains itself: ``caption`` says how to read it. Figures are
made without pyplot, so nothing global is opened, kept or left behind.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from alphaedge.errors import check_number

Floats = NDArray[np.float64]


class Look(NamedTuple):
    """How a method appears in every picture. Line and marker tell it apart where colour does not."""

    name: str
    colour: str
    marker: str
    line: str
    hollow: bool = False


# Okabe and Ito's palette, which the colour-blind can tell apart; as-printed variants are darker, hollow, dashed.
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
GROUPS: Final = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
INK, FAINT, EMPTY = "#333333", "#DDDDDD", "#F1F1F1"
SHADES = "YlGnBu"
MOST_NUMBERED = 30  # edges; beyond, numbers along an axis run into each other
MOST_IN_CIRCLE = 60  # edges; beyond, arrows hide each other
STUDENT: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def look(method: str) -> Look:
    """The look of a method; one that is not known keeps its name and is drawn grey."""
    return LOOKS.get(method, Look(method, "#777777", "P", "-"))


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the order of ``LOOKS``, unknown ones last."""
    known = list(LOOKS)
    return sorted(methods, key=lambda each: (known.index(each) if each in LOOKS else len(known), each))


def caption(figure: Figure) -> str:
    """How to read a figure, in plain words; the first sentence says what it shows."""
    return str(figure.get_label())


def scores_over_time(scores: pl.DataFrame, metric: str, *, bins: int = 40) -> Figure:
    """Mean score per stretch of the run, one line per method, with a band of uncertainty."""
    check_number("bins", bins, low=1, whole=True)
    place = (pl.col("time") * bins).floor().clip(0, bins - 1).cast(pl.Int64).alias("bin")
    cells = (
        scores.lazy()
        .select("method", "seed", "edge", place, pl.col("score").cast(pl.Float64))
        .filter(pl.col("score").is_finite())
        .group_by("method", "seed", "edge", "bin")
        .agg(pl.col("score").mean())
        .collect()
    )
    if cells.is_empty():
        return _nothing("No batch has a score.")
    seeds, edges = cells["seed"].n_unique(), cells["edge"].n_unique()
    if seeds > 1:
        cells = cells.group_by("method", "seed", "bin").agg(pl.col("score").mean())
    score = pl.col("score")
    lines = cells.group_by("method", "bin").agg(score.mean().alias("mean"), score.std().alias("std"), score.len())
    over = f"{seeds} seeds" if seeds > 1 else f"{edges} edges, one seed"
    figure = _figure(
        (9, 5),
        f"{metric} in the course of the run, mean over edges, one line per method. Higher is better. The run is "
        f"cut into {bins} equal stretches. The band is the 95% interval of the mean over {over}"
        + ("." if seeds > 1 else ": it says how edges differ, not how another run would turn out."),
    )
    axes = _axes(figure.add_subplot())
    drawn: list[tuple[float, Any]] = []
    spans: list[Floats] = []
    step = max(1, bins // 8)
    for place_in_order, method in enumerate(in_order(lines["method"].unique())):
        one = lines.filter(pl.col("method") == method).sort("bin")
        x = (one["bin"].to_numpy() + 0.5) / bins
        mean = one["mean"].to_numpy()
        half = _half_width(one["std"].cast(pl.Float64).fill_null(np.nan).to_numpy(), one["score"].to_numpy())
        style = look(method)
        (line,) = axes.plot(
            x, mean, style.line, color=style.colour, linewidth=1.8, label=style.name, marker=style.marker,
            markersize=6, markerfacecolor="white" if style.hollow else style.colour, markeredgecolor=style.colour,
            markevery=(place_in_order * 2 % step, step) if len(x) > step else 1, zorder=3,
        )  # fmt: skip
        axes.fill_between(x, mean - half, mean + half, color=style.colour, alpha=0.13, linewidth=0)
        drawn.append((float(mean[-1]), line))
        spans.append(half)
    means = lines["mean"].to_numpy()
    halves = np.concatenate(spans)
    room = float(np.ptp(means)) or 0.01
    # two seeds give bands so wide that the lines would be flat: the lines decide the limits, bands may be cut
    usual = float(np.nanmedian(halves)) if np.isfinite(halves).any() else 0.0
    pad = min(max(1.2 * usual, 0.06 * room), 0.5 * room)
    axes.set_ylim(means.min() - pad, means.max() + pad)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel(f"share of the run (band: 95% interval over {over})")
    axes.set_ylabel(f"{metric}, mean over edges")
    # the legend is in the order of the lines' right ends, where the eye arrives
    axes.legend(
        handles=[line for _, line in sorted(drawn, key=lambda each: -each[0])],
        loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=3.2, title="by last score",
    )  # fmt: skip
    return figure


def weight_matrix(
    weights: pl.DataFrame, method: str, *, clusters: Sequence[int] | None = None, moments: int = 4
) -> Figure:
    """The share that every edge (row) gives every peer (column), from the first mix to the last; first seed."""
    check_number("moments", moments, low=1, whole=True)
    one, seed = _first_seed(weights, method)
    name = look(method).name
    if one.is_empty():
        return _nothing(f"{name} did not mix any models.")
    n = len(clusters) if clusters is not None else 1 + max(_highest(one, "edge"), _highest(one, "peer"))
    moments = min(moments, one["aggregation"].n_unique())
    first, last = float(one["time"].min()), float(one["time"].max())  # type: ignore[arg-type]
    times = np.linspace(first, last, moments) if moments > 1 else np.array([last])
    panels = [_shares_at(one, float(time), n) for time in times]
    titles = [f"at {time:.0%} of the run" for time in times]
    titles[-1] = "last mix"
    if moments > 1:
        titles[0] = "first mix"
    columns = int(np.ceil(np.sqrt(moments)))
    rows = -(-moments // columns)
    figure = _figure(
        (4.4 * columns + 1, 4.4 * rows + 0.4),
        f"How much {name} lets every edge take from every peer, at {moments} moments of the run (seed {seed}). "
        "A row is an edge, a column a peer, the diagonal the edge's own model; each row adds up to 100%. Darker is "
        "more; grey is a peer that was not asked. Shades follow the square root, to keep small shares visible."
        + (" Lines part the clusters: good choices are dark squares along the diagonal." if clusters else ""),
    )
    norm = PowerNorm(0.5, vmin=0, vmax=max(float(np.nanmax(panel)) for panel in panels))
    grid = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes, panel, title in zip(grid, panels, titles, strict=False):
        image = _draw_matrix(axes, panel, clusters, norm)
        axes.set_title(title, fontsize=11, pad=18 if clusters is not None else 6)
    for axes in grid[moments:]:
        axes.remove()
    _shades(figure, image, list(grid[:moments]), f"share in the mix ({name})")
    return figure


def who_fetches_from_whom(
    fetches: pl.DataFrame, method: str, *, clusters: Sequence[int] | None = None, adversaries: Iterable[int] = ()
) -> Figure:
    """Arrows from a peer to the edge that fetches its model; first seed, whose ``adversaries`` are to be given."""
    one, seed = _first_seed(fetches.filter(pl.col("peer") != pl.col("edge"), pl.col("count") > 0), method)
    name = look(method).name
    if one.is_empty():
        return _nothing(f"{name} did not fetch any models.")
    n = len(clusters) if clusters is not None else 1 + max(_highest(one, "edge"), _highest(one, "peer"))
    counts = np.zeros((n, n))
    np.add.at(counts, (one["edge"].to_numpy(), one["peer"].to_numpy()), one["count"].to_numpy())
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    bad = sorted(set(adversaries))
    what = f"Who fetches models from whom with {name}, over the whole run (seed {seed}). "
    if n <= MOST_IN_CIRCLE:
        return _circle(shares, clusters, bad, what)
    figure = _figure(
        (8, 7),
        what + "A row is an edge, a column a peer; the shade is the peer's share of all that the edge fetched, on a "
        "square-root scale. Grey was never fetched." + (" Triangles mark adversaries." if bad else ""),
    )
    axes = figure.add_subplot()
    seen = np.where(counts > 0, shares, np.nan)
    image = _draw_matrix(axes, seen, clusters, PowerNorm(0.5, vmin=0, vmax=float(shares.max())))
    if bad:
        at = np.argsort(_order(n, clusters))[bad]
        axes.plot(at, np.full(len(bad), -0.01), "k^", ms=5, clip_on=False, transform=axes.get_xaxis_transform())
    _shades(figure, image, [axes], "share of the edge's fetches")
    return figure


def score_per_edge(summary: Mapping[str, Any]) -> Figure:
    """One dot per edge and method."""
    methods = in_order(summary["methods"])
    rows = [[np.nan if s is None else s for s in summary["methods"][m]["per_edge"]] for m in methods]
    values = np.array(rows, dtype=float)
    if not np.isfinite(values).any():
        return _nothing("No edge has a score.")
    n, metric, clusters = values.shape[1], summary["metric"], summary["clusters"]
    scored = np.isfinite(values)
    level = np.where(scored, values, 0).sum(axis=0) / np.maximum(scored.sum(axis=0), 1)
    order = sorted(range(n), key=lambda edge: (clusters[edge] if clusters else 0, level[edge], edge))
    figure = _figure(
        (9, 5),
        f"{metric} of every edge under every method, mean over seeds. Higher is better. Edges stand from low to "
        f"high mean score{' within their cluster' if clusters else ''}; a vertical line spans an edge's dots, so a "
        "long one is an edge for which the choice of method matters.",
    )
    axes = _axes(figure.add_subplot())
    sorted_values = values[:, order]
    has = np.isfinite(sorted_values).any(axis=0)
    lines = np.flatnonzero(has)
    axes.vlines(lines, np.nanmin(sorted_values[:, has], 0), np.nanmax(sorted_values[:, has], 0), FAINT, zorder=1)
    for index, method in enumerate(methods):
        style = look(method)
        beside = (index - (len(methods) - 1) / 2) * 0.6 / len(methods)  # side by side, or equal dots hide each other
        axes.scatter(
            np.arange(n) + beside, sorted_values[index], s=float(np.clip(900 / n, 8, 42)), marker=style.marker,
            facecolors="white" if style.hollow else style.colour, edgecolors=style.colour, linewidths=0.8,
            label=style.name, zorder=3,
        )  # fmt: skip
    axes.set_xlim(-0.7, n - 0.3)
    axes.grid(visible=False, axis="x")
    if n <= MOST_NUMBERED:
        axes.set_xticks(range(n), [str(edge) for edge in order])
    else:
        axes.set_xticks([])
    axes.set_xlabel("edge")
    axes.set_ylabel(metric)
    _part_clusters(axes, [clusters[edge] for edge in order] if clusters else None, both=False)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def png(figure: Figure) -> bytes:
    """A figure as a PNG file's bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as a PNG file."""
    Path(path).write_bytes(png(figure))


def _figure(size: tuple[float, float], text: str) -> Figure:
    figure = Figure(figsize=size, layout="constrained")
    figure.set_label(text)
    return figure


def _nothing(text: str) -> Figure:
    figure = _figure((6, 1.2), text)
    figure.text(0.5, 0.5, text, ha="center", va="center", color=INK)
    return figure


def _axes(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def _half_width(std: Floats, count: NDArray[Any]) -> Floats:
    """Half of the 95% interval of a mean: Student's quantile from a table, past it from its expansion."""
    free = np.maximum(count.astype(float) - 1, 1)
    table = np.array(STUDENT)[np.minimum(free, len(STUDENT)).astype(int) - 1]
    quantile = np.where(free <= len(STUDENT), table, 1.96 + 2.372 / free + 2.82 / free**2)
    return np.where(count > 1, quantile * std / np.sqrt(count), np.nan)


def _first_seed(table: pl.DataFrame, method: str) -> tuple[pl.DataFrame, Any]:
    one = table.filter(pl.col("method") == method)
    seed = one["seed"].min()
    return one.filter(pl.col("seed") == seed), seed


def _highest(table: pl.DataFrame, column: str) -> int:
    return int(table[column].max())  # type: ignore[arg-type]


def _shares_at(weights: pl.DataFrame, time: float, n: int) -> Floats:
    """Every edge's latest mix at a time, or its first if that is still to come; NaN for peers not in it."""
    first = weights.group_by("edge").agg(pl.col("aggregation").min().alias("first"))
    latest = weights.filter(pl.col("time") <= time).group_by("edge").agg(pl.col("aggregation").max())
    chosen = first.join(latest, on="edge", how="left").select(
        "edge", pl.coalesce("aggregation", "first").alias("aggregation")
    )
    rows = weights.join(chosen, on=["edge", "aggregation"])
    matrix = np.full((n, n), np.nan)
    matrix[rows["edge"].to_numpy(), rows["peer"].to_numpy()] = rows["share"].to_numpy()
    return matrix


def _order(n: int, clusters: Sequence[int] | None) -> list[int]:
    return sorted(range(n), key=lambda edge: (clusters[edge], edge)) if clusters is not None else list(range(n))


def _draw_matrix(axes: Axes, matrix: Floats, clusters: Sequence[int] | None, norm: PowerNorm) -> AxesImage:
    n = len(matrix)
    order = _order(n, clusters)
    shades = colormaps[SHADES].with_extremes(bad=EMPTY)
    image = axes.imshow(
        np.ma.masked_invalid(matrix[np.ix_(order, order)]), cmap=shades, norm=norm, interpolation="nearest"
    )
    ticks = range(n) if n <= MOST_NUMBERED else []
    size = 8 if n <= 16 else 6
    axes.set_xticks(ticks, [str(order[each]) for each in ticks], fontsize=size)
    axes.set_yticks(ticks, [str(order[each]) for each in ticks], fontsize=size)
    axes.set_xlabel("peer")
    axes.set_ylabel("edge")
    axes.spines[:].set_color(FAINT)
    axes.tick_params(length=0)
    _part_clusters(axes, [clusters[edge] for edge in order] if clusters is not None else None, both=True)
    return image


def _part_clusters(axes: Axes, groups: Sequence[int] | None, *, both: bool) -> None:
    """Separators between runs of equal groups along x (and y), and each group's name above."""
    if groups is None:
        return
    starts = [place for place, group in enumerate(groups) if place == 0 or group != groups[place - 1]]
    ends = [*starts[1:], len(groups)]
    for start in starts[1:]:
        axes.axvline(start - 0.5, color=INK, linewidth=0.7)
        if both:
            axes.axhline(start - 0.5, color=INK, linewidth=0.7)
    for start, end in zip(starts, ends, strict=True):
        text = f"cluster {groups[start]}" if len(starts) <= 5 else str(groups[start])
        if len(starts) <= 24:
            axes.text(
                (start + end - 1) / 2, 1.01, text, transform=axes.get_xaxis_transform(), ha="center", va="bottom",
                fontsize=8, color=INK,
            )  # fmt: skip


def _shades(figure: Figure, image: AxesImage, axes: list[Axes], label: str) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.7, label=label, format=PercentFormatter(1, decimals=None))
    bar.locator = MaxNLocator(5)
    bar.update_ticks()


def _circle(shares: Floats, clusters: Sequence[int] | None, bad: Sequence[int], what: str) -> Figure:
    n = len(shares)
    groups = sorted(set(clusters)) if clusters is not None else []
    least = min(0.02, 0.5 / max(n - 1, 1))  # stray fetches would hide the habits; an equal split is always drawn
    figure = _figure(
        (7.5, 7),
        what + "An arrow runs from a peer to the edge that fetches its model; the wider, the larger the peer's share "
        f"of all that the edge fetched. Shares under {least:.1%} are left out."
        + (" An arrow has the colour of the peer's cluster." if groups else "")
        + (" Crosses are adversaries; what is fetched from them is black." if bad else ""),
    )
    axes = figure.add_subplot(aspect="equal")
    axes.axis("off")
    order = _order(n, clusters)
    # an empty place after every cluster shows where it ends
    gap = 1 if len(groups) > 1 else 0
    slots = [k + gap * groups.index(clusters[edge]) if clusters is not None else k for k, edge in enumerate(order)]
    angle = np.empty(n)
    angle[order] = np.pi / 2 - 2 * np.pi * np.array(slots) / (n + gap * len(groups))
    x, y = np.cos(angle), np.sin(angle)
    colours = [GROUPS[groups.index(c) % len(GROUPS)] for c in clusters] if clusters is not None else [GROUPS[5]] * n
    dot = float(np.clip(2600 / n, 60, 320))
    radius = np.sqrt(dot) / 2
    for edge, peer in sorted(zip(*np.nonzero(shares >= least), strict=True), key=lambda pair: shares[pair]):
        share = shares[edge, peer]
        axes.add_patch(
            FancyArrowPatch(
                (x[peer], y[peer]), (x[edge], y[edge]), connectionstyle="arc3,rad=0.18", arrowstyle="-|>",
                mutation_scale=6 + 10 * share, linewidth=0.4 + 5 * share, alpha=0.3 + 0.6 * min(1.0, 2 * share),
                color="black" if peer in bad else colours[peer], shrinkA=radius, shrinkB=radius + 1, zorder=1,
            )
        )  # fmt: skip
    for edge in range(n):
        axes.scatter(
            x[edge], y[edge], s=dot, marker="X" if edge in bad else "o", color=colours[edge], zorder=2,
            edgecolors="black" if edge in bad else "white", linewidths=1.5,
        )  # fmt: skip
        axes.text(1.1 * x[edge], 1.1 * y[edge], str(edge), ha="center", va="center", fontsize=9, color=INK)
    for place, group in enumerate(groups):
        axes.scatter([], [], s=60, color=GROUPS[place % len(GROUPS)], label=f"cluster {group}")
    if bad:
        axes.scatter([], [], s=60, color="white", edgecolors="black", marker="X", label="adversary")
    if bad or groups:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
    return figure
