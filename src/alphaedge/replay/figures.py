"""Figures of a replay: the score of each edge over time, and the latency of predictions."""

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphaedge.replay.result import BARS_PER_DECADE, EdgeResult, ReplayResult
from alphaedge.report.charts import make_charts, save
from alphaedge.report.styles import FAINT, INK, PALETTE

MAX_COLOURED_LINES: Final = 12  # with more edges, all lines are faint and have no names
MAX_POINTS: Final = 60  # of a line; batches are averaged down to that


def draw_result(result: ReplayResult) -> Figure:
    """Draw scores over time beside a histogram of latencies."""
    figure, (scores, latencies) = make_charts(2, "replay")
    _draw_scores(scores, result)
    _draw_latencies(latencies, result)
    return figure


def save_result(result: ReplayResult, folder: Path) -> None:
    """Write summary.json and replay.png to an existing folder."""
    (folder / "summary.json").write_bytes(result.to_json())
    save(draw_result(result), folder / "replay.png")


def _draw_scores(axes: Axes, result: ReplayResult) -> None:
    coloured = len(result.edges) <= MAX_COLOURED_LINES
    for number, edge in enumerate(result.edges):
        x, y = _score_line(edge)
        if coloured:
            axes.plot(x, y, color=PALETTE[number % len(PALETTE)], linewidth=1.6, label=edge.edge)
        else:
            axes.plot(x, y, color=INK, alpha=0.25, linewidth=0.8)
    if coloured and any(edge.series for edge in result.edges):
        axes.legend(frameon=False, fontsize=8)
    _style_axes(axes, "seconds", result.metric, f"{result.metric} of batches, averaged")


def _score_line(edge: EdgeResult) -> tuple[list[float], list[float]]:
    points = [(p.at, p.score) for p in edge.series if p.score is not None]
    parts = [part for part in np.array_split(np.array(points, dtype=float).reshape(-1, 2), MAX_POINTS) if len(part)]
    means = [part.mean(axis=0).tolist() for part in parts]
    return [at for at, _ in means], [score for _, score in means]


def _draw_latencies(axes: Axes, result: ReplayResult) -> None:
    latency = result.total.latency
    if latency.histogram:
        upper, counts = (np.array(part, dtype=float) for part in zip(*latency.histogram, strict=True))
        lower = upper / 10 ** (1 / BARS_PER_DECADE)
        axes.bar(lower, counts, width=upper - lower, align="edge", color=PALETTE[0])
        axes.set_xscale("log")
    for number, (name, value) in enumerate({"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}.items()):
        if value is not None:
            axes.axvline(
                value, color=INK, linewidth=1, linestyle=("-", "--", ":")[number], label=f"{name} {value:.3g} ms"
            )
    if latency.histogram:
        axes.legend(frameon=False, fontsize=8)
    since = "sent" if result.speed is None else "planned"
    _style_axes(axes, "milliseconds", "requests", f"latency of predictions, from when they were {since}")


def _style_axes(axes: Axes, x: str, y: str, title: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=10)
