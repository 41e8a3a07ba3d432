"""Figures of a demonstration: gains and scores over time, who learns from whom, and the latency of predictions."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from alphaedge.demo.reactions import THRESHOLDS, Reaction
from alphaedge.demo.run import DemoResult
from alphaedge.demo.scenario import IncidentKind
from alphaedge.monitoring.frames import Frame
from alphaedge.report.styles import PALETTE

AVERAGED_BATCHES: Final = 15  # per point of a line
MATRICES: Final = 5
GAP_SECONDS: Final = 4.0  # without a batch; a line is interrupted there
_MARKS: Final[Mapping[IncidentKind, str]] = {
    "hostile": "{edge} turns hostile",
    "kill": "{edge} killed",
    "restart": "{edge} back",
    "cut": "{edge} cut from {peer}",
}


def draw_gains(result: DemoResult) -> Figure:
    """Draw the gain of each honest edge over learning alone, as it reported it: the mean of all its batches so far."""
    figure, axes = _chart()
    hostile = {incident.edge for _, incident in result.incidents if incident.kind == "hostile"}
    for number, name in enumerate(edge.edge for edge in result.replay.edges):  # all, so that colours stay the same
        reports = [
            (frame.time - result.started, frame.edges[name].vitals.gain)
            for frame in result.frames
            if name in frame.edges
        ]
        points = [(at, gain) for at, gain in reports if gain is not None]
        if points and name not in hostile:
            at, gain = np.array(points).T
            axes.plot(at, gain, color=_colour(number), linestyle=_line_style(number), label=name)
    axes.axhline(0, color="#222222", linewidth=0.9)
    axes.set_ylabel(f"{result.replay.metric} above learning alone, so far")
    _mark_incidents(axes, result)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def draw_scores(result: DemoResult) -> Figure:
    """Draw the scores of all edges over time; each point is the mean of the last batches."""
    figure, axes = _chart()
    for number, edge in enumerate(result.replay.edges):
        points = [(p.at, p.score) for p in edge.series if p.score is not None]
        if len(points) < AVERAGED_BATCHES:
            continue
        at, score = np.array(points).T
        at = at[AVERAGED_BATCHES - 1 :]
        means = np.convolve(score, np.ones(AVERAGED_BATCHES) / AVERAGED_BATCHES, mode="valid")
        gaps = np.flatnonzero(np.diff(at) > GAP_SECONDS) + 1
        axes.plot(
            np.insert(at, gaps, np.nan),
            np.insert(means, gaps, np.nan),
            color=_colour(number),
            linestyle=_line_style(number),
            label=edge.edge,
        )
    axes.set_ylabel(f"{result.replay.metric}, mean of {AVERAGED_BATCHES} batches")
    _mark_incidents(axes, result)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def draw_hostile_share(result: DemoResult, hostile: str, reactions: Sequence[Reaction]) -> Figure:
    """Draw the share that each edge gives the hostile one, over time, and its exclusions."""
    figure, axes = _chart()
    for number, name in enumerate(edge.edge for edge in result.replay.edges):  # all, so that colours stay the same
        frames = [frame for frame in result.frames if name in frame.edges]
        points = [(frame.time - result.started, _share(frame, name, hostile)) for frame in frames]
        if name != hostile and any(share for _, share in points):
            at, share = np.array(points).T
            axes.step(at, share, where="post", color=_colour(number), linestyle=_line_style(number), label=name)
    for share in THRESHOLDS:
        axes.axhline(share, color="#999999", linewidth=0.8, linestyle=":")
    turned = next(at for at, incident in result.incidents if (incident.kind, incident.edge) == ("hostile", hostile))
    for number, name in enumerate(edge.edge for edge in result.replay.edges):
        exclusions = [e for one in reactions if (one.edge, one.hostile) == (name, hostile) for e in one.exclusions]
        at = [turned - result.started + e.seconds for e in exclusions]
        axes.plot(at, [0.0] * len(at), "x", color=_colour(number), clip_on=False, zorder=5)
    axes.set_ylabel(f"share of {hostile} in the mix")
    axes.set_ylim(bottom=0)
    _mark_incidents(axes, result)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def draw_matrices(result: DemoResult) -> Figure:
    """Draw the shares of all mixes at a few moments."""
    names = [edge.edge for edge in result.replay.edges]
    figure = Figure(figsize=(3.1 * MATRICES, 3.6), layout="constrained")
    charts = figure.subplots(1, MATRICES, squeeze=False)[0]
    last = max((frame.time for frame in result.frames), default=result.started)
    image = None
    for axes, moment in zip(charts, np.linspace(result.started, last, MATRICES + 1)[1:], strict=True):
        image = axes.imshow(_matrix(result.frames, names, float(moment)), vmin=0, vmax=1, cmap="Blues")
        axes.set_title(f"{moment - result.started:.0f} s", fontsize=10)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names if axes is charts[0] else [], fontsize=8)
    charts[0].set_ylabel("edge")
    if image is not None:
        figure.colorbar(image, ax=list(charts), label="share of the mix", shrink=0.8)
    return figure


def draw_latency(result: DemoResult) -> Figure:
    """Draw the cumulative latency of predictions, as clients measured it."""
    figure, axes = _chart()
    for number, edge in enumerate(result.replay.edges):
        if edge.latency.histogram:
            upper, count = np.array(edge.latency.histogram).T
            share = count.cumsum() / count.sum()
            axes.plot(upper, share, color=_colour(number), linestyle=_line_style(number), label=edge.edge)
    axes.set(xscale="log", xlabel="milliseconds from when a request was planned", ylabel="share of requests")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _chart() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.add_subplot(axisbelow=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_xlabel("seconds")
    return figure, axes


def _mark_incidents(axes: Axes, result: DemoResult) -> None:
    for time, incident in result.incidents:
        at = time - result.started
        text = _MARKS[incident.kind].format(edge=incident.edge, peer=incident.peer)
        axes.axvline(at, color="#b3003b" if incident.kind == "hostile" else "#666666", linewidth=0.9, linestyle="--")
        axes.annotate(text, (at, 1.0), xycoords=("data", "axes fraction"), rotation=30, fontsize=8, color="#444444")


def _share(frame: Frame, name: str, peer: str) -> float:
    vitals = frame.edges[name].vitals
    return vitals.links[peer].share if peer in vitals.links else 0.0


def _matrix(frames: Sequence[Frame], names: Sequence[str], moment: float) -> NDArray[np.float64]:
    """Return the shares at a moment: a row per edge, a column per model that it mixes, its own on the diagonal."""
    last_frame = {name: frame for frame in frames if frame.time <= moment for name in frame.edges}
    matrix = np.zeros((len(names), len(names)))
    for row, name in enumerate(names):
        if name in last_frame:
            matrix[row] = [_share(last_frame[name], name, peer) for peer in names]
            matrix[row, row] = last_frame[name].edges[name].vitals.own_share
    return matrix


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _line_style(number: int) -> str:
    return ("-", "--", ":")[number // len(PALETTE) % 3]
