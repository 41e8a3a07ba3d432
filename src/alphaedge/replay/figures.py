"""Pictures of a replay: each edge's score over time, and how long predictions took."""

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphaedge.replay.result import EdgeResult, ReplayResult
from alphaedge.report.charts import make_charts, save
from alphaedge.report.styles import FAINT, INK, PALETTE

MOST_LINES: Final = 12  # edges that are told apart; with more, lines are faint and their mean is drawn
POINTS: Final = 60  # of a line; batches are averaged to so many


def picture(outcome: ReplayResult) -> Figure:
    """Score over time beside a histogram of latencies."""
    figure, (scores, latencies) = make_charts(2, "replay")
    _scores(scores, outcome)
    _latencies(latencies, outcome)
    return figure


def save_all(outcome: ReplayResult, folder: Path) -> None:
    """summary.json and replay.png in a folder that is there."""
    (folder / "summary.json").write_bytes(outcome.json())
    save(picture(outcome), folder / "replay.png")


def _scores(axes: Axes, outcome: ReplayResult) -> None:
    few = len(outcome.edges) <= MOST_LINES
    for place, edge in enumerate(outcome.edges):
        x, y = _line(edge)
        if few:
            axes.plot(x, y, color=PALETTE[place % len(PALETTE)], linewidth=1.6, label=edge.edge)
        else:
            axes.plot(x, y, color=INK, alpha=0.25, linewidth=0.8)
    if few and any(edge.series for edge in outcome.edges):
        axes.legend(frameon=False, fontsize=8)
    _dress(axes, "seconds", outcome.metric, f"{outcome.metric} of batches, averaged")


def _line(edge: EdgeResult) -> tuple[list[float], list[float]]:
    known = [(p.at, p.score) for p in edge.series if p.score is not None]
    parts = [part for part in np.array_split(np.array(known, dtype=float).reshape(-1, 2), POINTS) if len(part)]
    means = [part.mean(axis=0).tolist() for part in parts]
    return [at for at, _ in means], [score for _, score in means]


def _latencies(axes: Axes, outcome: ReplayResult) -> None:
    bars = outcome.total.latency.histogram
    if bars:
        upper, counts = (np.array(part, dtype=float) for part in zip(*bars, strict=True))
        lower = upper / 10 ** (1 / 12)
        axes.bar(lower, counts, width=upper - lower, align="edge", color=PALETTE[0])
        axes.set_xscale("log")
    found = outcome.total.latency
    for place, (name, value) in enumerate({"p50": found.p50, "p95": found.p95, "p99": found.p99}.items()):
        if value is not None:
            axes.axvline(
                value, color=INK, linewidth=1, linestyle=("-", "--", ":")[place], label=f"{name} {value:.3g} ms"
            )
    if bars:
        axes.legend(frameon=False, fontsize=8)
    since = "sent" if outcome.speed is None else "to be sent"
    _dress(axes, "milliseconds", "requests", f"latency of predictions, from when they were {since}")


def _dress(axes: Axes, x: str, y: str, title: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=10)
