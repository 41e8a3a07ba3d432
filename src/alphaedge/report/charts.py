"""Building blocks of figures. They use no pyplot, so that nothing global is opened or left behind."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from alphaedge.report.styles import FAINT, INK, in_order, style_of


@final
class ShownFigure(Figure):
    """A figure that a notebook shows. Without pyplot, it would show its name and size only."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=80, bbox_inches="tight", facecolor="white")
        return file.getvalue()


def make_figure(size: tuple[float, float], label: str, title: str = "") -> Figure:
    """Make an empty figure. ``size`` is in inches; ``label`` is the name by which a page finds its caption."""
    figure = ShownFigure(figsize=size, layout="constrained")
    figure.set_label(label)
    figure.suptitle(title, fontsize=12)
    return figure


def make_message(text: str) -> Figure:
    """Make a figure that says why there is nothing to show."""
    return make_figure((6, 0.6), text, text)


def make_chart(label: str) -> tuple[Figure, Axes]:
    """Make a figure with one chart."""
    figure = make_figure((9, 5), label)
    axes = figure.add_subplot()
    style_axes(axes)
    return figure, axes


def make_charts(count: int, label: str, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Make a figure with several charts, two in a row, each as high as ``height`` in inches."""
    rows = -(-count // 2)
    figure = make_figure((10, height * rows), label)
    grid = figure.subplots(rows, 2 if count > 1 else 1, squeeze=False)
    charts = list(grid.flatten())
    for unused in charts[count:]:
        unused.set_visible(False)
    return figure, charts[:count]


def style_axes(axes: Axes) -> None:
    """Give a chart a faint grid and no frame at the top and right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def add_legend(figure: Figure, charts: Sequence[Axes]) -> None:
    """Add one legend for all charts of a figure, of the lines that have a name."""
    lines = [line for axes in charts for line in axes.get_lines()]
    handles = {name: line for line in lines if not (name := str(line.get_label())).startswith("_")}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)


def draw_lines(
    axes: Axes, lines: Mapping[str, Sequence[tuple[float, float, float]]], *, title: str, x: str, y: str, log: bool
) -> None:
    """Draw one line per method through points (value, score, half the width of the score's 95% interval)."""
    style_axes(axes)
    for method in in_order(lines):
        at, score, half = np.array(lines[method], dtype=float).reshape(-1, 3).T
        style = style_of(method)
        axes.plot(at, score, linestyle=style.line, linewidth=1.6, markersize=5, **style.markers())
        axes.fill_between(at, score - half, score + half, color=style.colour, alpha=0.12, linewidth=0)
    values = sorted({point[0] for line in lines.values() for point in line})
    if log:
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.minorticks_off()
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def draw_dots(
    axes: Axes, values: Mapping[str, Mapping[str, float]], *, rows: Sequence[str], title: str, x: str, low: float
) -> None:
    """Draw one row per name in ``rows``, with a marker per method at its value; values below ``low`` are left out."""
    style_axes(axes)
    for method in in_order(values):
        shown = [(value, rows.index(row)) for row, value in values[method].items() if value >= low]
        at, height = zip(*shown, strict=True) if shown else ((), ())
        axes.plot(at, height, linestyle="", markersize=6, **style_of(method).markers())
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)


def save(figure: Figure, path: str | Path | BinaryIO, paper: str = "white") -> None:
    """Write a figure as PNG, or as SVG if the path ends in ``.svg``. paper: the colour behind it."""
    kind = "svg" if isinstance(path, str | Path) and Path(path).suffix == ".svg" else "png"
    figure.savefig(path, format=kind, dpi=160, bbox_inches="tight", facecolor=paper)
