"""The pictures of a demonstration: scores, who listens to whom, and how long predictions took, over time."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from alphaedge.demo.run import Played
from alphaedge.demo.story import Scene
from alphaedge.monitoring.frames import Frame

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe and Ito's
SMOOTH: Final = 15  # batches whose scores make a point
MOMENTS: Final = 5
OUTAGE: Final = 4.0  # seconds without a batch


def scores(played: Played) -> Figure:
    """Scores of all edges over time, each point the mean of the last batches."""
    figure, axes = _chart()
    for number, one in enumerate(played.outcome.edges):
        points = [(p.at, p.score) for p in one.series if p.score is not None]
        if len(points) < SMOOTH:
            continue
        at, score = np.array(points).T
        at, smooth = at[SMOOTH - 1 :], np.convolve(score, np.ones(SMOOTH) / SMOOTH, mode="valid")
        down = np.flatnonzero(np.diff(at) > OUTAGE) + 1  # nothing was predicted: no line goes there
        axes.plot(
            np.insert(at, down, np.nan),
            np.insert(smooth, down, np.nan),
            color=_colour(number),
            linestyle=_style(number),
            label=one.edge,
        )
    axes.set_ylabel(f"{played.outcome.metric}, mean of {SMOOTH} batches")
    _scenes(axes, played)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def trust(played: Played, hostile: str) -> Figure:
    """The share that each edge gives the one that turns hostile, over time."""
    figure, axes = _chart()
    for number, name in enumerate(one.edge for one in played.outcome.edges):  # of all: a colour is one edge's
        points = [
            (frame.time - played.began, _share(frame, name, hostile)) for frame in played.frames if name in frame.edges
        ]
        if name != hostile and any(share for _, share in points):
            at, share = np.array(points).T
            axes.step(at, share, where="post", color=_colour(number), linestyle=_style(number), label=name)
    axes.axhline(0.02, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_ylabel(f"share of {hostile} in the mix")
    axes.set_ylim(bottom=0)
    _scenes(axes, played)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def matrices(played: Played) -> Figure:
    """Who takes how much from whom, at some moments."""
    names = [one.edge for one in played.outcome.edges]
    figure = Figure(figsize=(3.1 * MOMENTS, 3.6), layout="constrained")
    charts = figure.subplots(1, MOMENTS, squeeze=False)[0]
    last = max((frame.time for frame in played.frames), default=played.began)
    image = None
    for axes, moment in zip(charts, np.linspace(played.began, last, MOMENTS + 1)[1:], strict=True):
        image = axes.imshow(_matrix(played.frames, names, float(moment)), vmin=0, vmax=1, cmap="Blues")
        axes.set_title(f"{moment - played.began:.0f} s", fontsize=10)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names if axes is charts[0] else [], fontsize=8)
    charts[0].set_ylabel("takes")
    if image is not None:
        figure.colorbar(image, ax=list(charts), label="share of the mix", shrink=0.8)
    return figure


def latency(played: Played) -> Figure:
    """How long predictions took, as clients saw it."""
    figure, axes = _chart()
    for number, one in enumerate(played.outcome.edges):
        bars = one.latency.histogram
        if bars:
            upper, count = np.array(bars).T
            axes.plot(
                upper, count.cumsum() / count.sum(), color=_colour(number), linestyle=_style(number), label=one.edge
            )
    axes.set(xscale="log", xlabel="milliseconds from the moment a request was due", ylabel="share of the requests")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _chart() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.add_subplot(axisbelow=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_xlabel("seconds")
    return figure, axes


def _scenes(axes: Axes, played: Played) -> None:
    short = {"hostile": "{} turns hostile", "kill": "{} killed", "restart": "{} back", "cut": "{} cut from {}"}
    for at, scene in played.scenes:
        _mark(axes, at - played.began, short[scene.kind].format(scene.edge, scene.peer), scene)


def _mark(axes: Axes, at: float, text: str, scene: Scene) -> None:
    axes.axvline(at, color="#b3003b" if scene.kind == "hostile" else "#666666", linewidth=0.9, linestyle="--")
    axes.annotate(text, (at, 1.0), xycoords=("data", "axes fraction"), rotation=30, fontsize=8, color="#444444")


def _share(frame: Frame, name: str, peer: str) -> float:
    vitals = frame.edges[name].vitals
    return vitals.links[peer].share if peer in vitals.links and peer in vitals.neighbours else 0.0


def _matrix(frames: Sequence[Frame], names: Sequence[str], moment: float) -> NDArray[np.float64]:
    state = {name: frame for frame in frames if frame.time <= moment for name in frame.edges}
    found = np.zeros((len(names), len(names)))
    for row, name in enumerate(names):
        if name in state:
            found[row] = [_share(state[name], name, peer) for peer in names]
            found[row, row] = state[name].edges[name].vitals.own_share
    return found


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _style(number: int) -> str:
    return ("-", "--", ":")[number // len(COLOURS) % 3]
