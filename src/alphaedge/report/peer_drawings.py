"""Drawings of what edges take from their peers: as a matrix, or as arrows between edges on a circle."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import PowerNorm, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from alphaedge.report.styles import EMPTY, INK, PALETTE

Floats = NDArray[np.float64]
Names = Sequence[str] | None  # of the edges, if they have any

MAX_NUMBERED_EDGES: Final = 30  # with more, the numbers along an axis would overlap
MAX_NAME: Final = 12  # characters
MAX_NAMED_CLUSTERS: Final = 24  # with more, their names would overlap
MAX_CENTRED: Final = 0.2  # names this near to the vertical middle line are centred
MIN_DRAWN_SHARE: Final = 0.02  # rarer pulls would hide the usual ones


def draw_matrix(axes: Axes, matrix: Floats, clusters: Sequence[int], norm: PowerNorm, names: Names = None) -> AxesImage:
    """Draw a matrix of edges (rows) by peers (columns), in the order of clusters. NaN is left empty."""
    order = np.argsort(clusters, kind="stable")
    cells = np.ma.masked_invalid(matrix[np.ix_(order, order)])
    image = axes.imshow(cells, colormaps["YlGnBu"].with_extremes(bad=EMPTY), norm, interpolation="nearest")
    label_edges(axes, order, names)
    axes.set_yticks(*edge_ticks(order, names))
    axes.set(xlabel="peer", ylabel="edge")
    axes.tick_params(length=0, labelsize=8 if len(order) <= 16 else 6)
    separate_clusters(axes, sorted(clusters), rows=True)
    return image


def edge_ticks(order: Iterable[int], names: Names = None) -> tuple[Sequence[int], list[str]]:
    """Return places and labels of the ticks for edges in this order; none if there are too many."""
    labels = [edge_label(edge, names) for edge in order]
    return (range(len(labels)), labels) if len(labels) <= MAX_NUMBERED_EDGES else ([], [])


def label_edges(axes: Axes, order: Iterable[int], names: Names = None) -> None:
    """Label the ticks of the horizontal axis; names stand upright, so that they do not overlap."""
    places, labels = edge_ticks(order, names)
    axes.set_xticks(places, labels, rotation=90 if names else 0)


def edge_label(edge: int, names: Names = None) -> str:
    """Return the name of an edge, cut off if it is long; or its number.

    >>> edge_label(1, ["Oslo", "Llanfairpwllgwyngyll"]), edge_label(1)
    ('Llanfairpwl…', '1')
    """
    if names is None:
        return str(edge)
    return names[edge] if len(names[edge]) <= MAX_NAME else names[edge][: MAX_NAME - 1] + "…"


def separate_clusters(axes: Axes, clusters: Sequence[int], *, rows: bool) -> None:
    """Draw thin lines between clusters, given sorted, and write their names above."""
    names, starts, sizes = np.unique(clusters, return_index=True, return_counts=True)
    for name, start, size in zip(names, starts, sizes, strict=True):
        for line in (axes.axvline, axes.axhline)[: 1 + rows] if start else ():
            line(start - 0.5, color=INK, linewidth=0.7)
        if 1 < len(names) <= MAX_NAMED_CLUSTERS:
            at, text = start + (size - 1) / 2, f"cluster {name}" if len(names) <= 5 else str(name)
            axes.annotate(text, (at, 1.015), xycoords=("data", "axes fraction"), ha="center", fontsize=8)


def add_colour_bar(figure: Figure, image: AxesImage, axes: list[Axes], label: str) -> None:
    """Add a colour bar in percent for matrices of one scale."""
    percent = FuncFormatter(lambda share, _: f"{100 * share:.3g}%")
    figure.colorbar(image, ax=axes, shrink=0.7, label=label, format=percent, ticks=MaxNLocator(5))


def draw_circle(
    axes: Axes, shares: Floats, clusters: Sequence[int], adversaries: Sequence[int], edge_names: Names = None
) -> None:
    """Draw edges on a circle and an arrow from each peer to each edge that takes a share from it."""
    n, place = len(clusters), np.argsort(np.argsort(clusters, kind="stable"))
    names, cluster = np.unique(clusters, return_inverse=True)
    gaps = len(names) if len(names) > 1 else 0  # an empty place after each cluster shows where it ends
    angle = np.pi / 2 - 2 * np.pi * (place + cluster) / (n + gaps)
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    colours = to_rgba_array([PALETTE[each % len(PALETTE)] for each in cluster])
    half = 1.28 if gaps else 1.2
    axes.set(aspect="equal", xlim=(-1.1 * half, 1.1 * half), ylim=(-half, half))
    axes.axis("off")
    dot = float(np.clip(50 / np.sqrt(n), 8, 18))  # points; the height of 7 inches has 504
    text = 9 if n <= MAX_NUMBERED_EDGES else 7
    radius = dot / 2 * (2 * half / 504) + 0.01
    # An equal split among all peers is always drawn.
    edge, peer = np.nonzero(shares >= min(MIN_DRAWN_SHARE, 0.5 / max(n - 1, 1)))
    share, start, end = shares[edge, peer][:, None], at[peer], at[edge]
    # Curves bend towards the middle, where there is room, and to one side, so that the two directions differ.
    bend = 0.33 * (start + end) + 0.12 * (end - start)[:, ::-1] * (-1, 1)
    reach = np.linalg.norm(end - bend, axis=1, keepdims=True)
    into, head = (end - bend) / reach, 0.025 + 0.06 * share
    first, last = radius / 2 / reach, 1 - (radius + head) / 2 / reach
    t = (first + (last - first) * np.linspace(0, 1, 24))[:, :, None]
    curves = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * bend[:, None] + t**2 * end[:, None]
    tip, back, side = end - into * radius, end - into * (radius + head), into[:, ::-1] * (-0.4, 0.4) * head
    paint = np.where(np.isin(peer, adversaries)[:, None], to_rgba_array("black"), colours[peer])
    paint[:, 3:] = 0.15 + 0.75 * np.minimum(1, 4 * share)
    axes.add_collection(LineCollection(list(curves), colors=paint, linewidths=0.4 + 6 * share[:, 0]))
    axes.add_collection(PolyCollection(list(np.stack([tip, back + side, back - side], 1)), facecolors=paint))
    for each, (x, y) in enumerate(at):
        marker, rim = ("X", "black") if each in adversaries else ("o", "white")
        axes.plot(x, y, marker, color=colours[each], markeredgecolor=rim, markersize=dot, markeredgewidth=1.5)
        # A name grows away from the circle.
        align: Literal["left", "center", "right"] = "center"
        if edge_names and abs(x) > MAX_CENTRED:
            align = "left" if x > 0 else "right"
        axes.text(1.1 * x, 1.1 * y, edge_label(each, edge_names), ha=align, va="center", fontsize=text, color=INK)
    for index in range(gaps):
        middle = angle[cluster == index].mean()
        away = 0.3 if edge_names else 0.0  # beyond the names
        x, y = (1.29 + away) * np.cos(middle), (1.22 + away / 2) * np.sin(middle)
        axes.text(x, y, f"cluster {names[index]}", ha="center", va="center", color=INK)
