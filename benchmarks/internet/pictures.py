"""Figures of the page docs/internet-scale.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphaedge.report.charts import add_legend, make_charts, save, style_axes
from alphaedge.report.styles import INK, PALETTE
from benchmarks.internet.budget import MBIT

GREEDY, DESIGN, VIEWS, RANDOM = PALETTE[6], PALETTE[0], PALETTE[2], INK
LINES: Final = {  # of a run: label, colour, style
    "greedy": ("as it is", GREEDY, "-"),
    "design": ("design", DESIGN, "-"),
    "design, partial views": ("design, partial views", VIEWS, "-"),
    "random": ("random", RANDOM, ":"),
    "greedy, churn": ("as it is, churn", GREEDY, "--"),
    "design, partial views, churn": ("design, partial views, churn", VIEWS, "--"),
}
ROUNDS: Final = (3, 10, 30, 100, 300, 1_000)  # on an axis


def draw_pictures(figures: Mapping[str, Any], folder: Path) -> None:
    """Draw whatever there are figures for, as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Figure] = {}
    if "selection" in figures:
        found |= {"selection": _selection(figures["selection"]), "links": _links(figures["selection"])}
    if "directory" in figures:
        found["directory"] = _directory(figures)
    for name, figure in found.items():
        for kind in ("png", "svg"):
            save(figure, folder / f"internet-{name}.{kind}")


def _curve(axes: Axes, one: Mapping[str, Any], key: str, label: str, colour: str, line: str) -> None:
    rounds = [1 + number * one["step"] for number in range(len(one[key]))]
    axes.plot(rounds, one[key], color=colour, linestyle=line, linewidth=1.6, label=label)


def _selection(runs: Mapping[str, Any]) -> Figure:
    """Planted peers by round, and rounds by the number of clusters."""
    figure, (left, right) = make_charts(2, "selection", 4.0)
    for name, (label, colour, line) in LINES.items():
        _curve(left, runs[name], "planted", label, colour, line)
    _name(left, f"{runs['greedy']['edges']:,} edges in 100 clusters", "rounds", "planted peers among neighbours")
    left.set_ylim(0, 1)
    for rule, colour in (("greedy", GREEDY), ("design", DESIGN)):
        runs_of_rule = [one for name, one in runs.items() if name.startswith(rule) and "in clusters of 20" in name]
        for level, line in (("0.5", "-"), ("0.8", "--")):
            points = [(one["edges"] // 20, one["until"][level]) for one in runs_of_rule if one["until"][level]]
            if points:
                label = f"{'as it is' if rule == 'greedy' else 'design'}, {float(level):.0%} planted"
                fill = colour if line == "-" else "white"
                look: dict[str, Any] = {"color": colour, "linestyle": line, "marker": "o", "markerfacecolor": fill}
                right.plot(*zip(*points, strict=True), label=label, **look)
    clusters = sorted({one["edges"] // 20 for name, one in runs.items() if "in clusters of 20" in name})
    right.set(xscale="log", yscale="log")
    right.set_xticks(clusters, [f"{count:,}" for count in clusters])
    right.set_yticks(ROUNDS, [f"{count:,}" for count in ROUNDS])
    right.minorticks_off()
    _name(right, "clusters of 20 edges", "clusters", "rounds")
    for axes in (left, right):
        axes.legend(fontsize=8, frameon=False)
    return figure


def _links(runs: Mapping[str, Any]) -> Figure:
    """The busiest edge by round, and links across a partition."""
    figure, (left, right) = make_charts(2, "links", 3.6)
    for name in ("greedy", "design", "design, partial views"):
        _curve(left, runs[name], "busiest", *LINES[name])
    left.set_yscale("log")
    _name(left, "the edge that most others pull from", "rounds", "edges that pull from it")
    for name in ("greedy", "design"):
        _curve(right, runs[f"{name}, partition"], "crossing", *LINES[name])
    _name(right, "a partition into halves, and after it", "rounds", "neighbours on the other side")
    add_legend(figure, [left])
    return figure


def _directory(figures: Mapping[str, Any]) -> Figure:
    """What an edge sends and computes, by the number of edges."""
    figure, (left, right) = make_charts(2, "directory", 3.6)
    sizes = [int(edges) for edges in figures["directory"]]
    for axes, key, unit, limits in ((left, "sent", MBIT, (1, 10)), (right, "cores", 1.0, (0.1, 1))):
        full = [one[key] / unit for one in figures["directory"].values()]
        axes.plot(sizes, full, color=GREEDY, marker="o", label="full directory")
        axes.plot(sizes, [figures["partial views"][key] / unit] * len(sizes), color=VIEWS, label="partial views")
        for limit in limits:
            axes.axhline(limit, color=INK, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", yscale="log")
    _name(left, "what an edge sends", "edges", "Mbit/s")
    _name(right, "what an edge computes", "edges", "cores")
    left.legend(fontsize=8, frameon=False)
    return figure


def _name(axes: Axes, title: str, x: str, y: str) -> None:
    style_axes(axes)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
