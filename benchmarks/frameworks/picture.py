"""The figures of ``benchmarks.peers``, drawn."""

from collections.abc import Mapping
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from alphaedge.report.charts import make_charts, style_axes
from alphaedge.report.styles import STYLES, style_of

NAMES: Final[Mapping[str, str]] = {
    **{method: f"{style.name} (ours)" for method, style in STYLES.items()},
    "flower": "Flower",
    "gossipy": "gossipy",
    "fluke": "fluke",
    "river own": "river, own",
    "river batches": "river, own, in batches",
    "river pooled": "river, pooled",
    "vowpalwabbit own": "Vowpal Wabbit, own",
    "vowpalwabbit pooled": "Vowpal Wabbit, pooled",
}


def draw(figures: Mapping[str, Any]) -> Figure:
    """Draw the rates of the simulators as bars, and rate and AUC of the online learners as points."""
    figure, (bars, points) = make_charts(2, "peers", height=3.6)
    _draw_bars(bars, figures["simulators"])
    _draw_points(points, figures["learners"])
    return figure


def _draw_bars(axes: Axes, found: Mapping[str, Mapping[str, Any]]) -> None:
    style_axes(axes)
    names = sorted(found, key=lambda name: float(found[name]["edge_batches_per_second"]))
    rates = [float(found[name]["edge_batches_per_second"]) for name in names]
    drawn = axes.barh([NAMES[name] for name in names], rates, color=[style_of(name).colour for name in names])
    labels = [
        f"{rate:,.0f}" + (f" ({found[name]['cores']} cores)" if found[name]["cores"] > 1 else "")
        for name, rate in zip(names, rates, strict=True)
    ]
    axes.bar_label(drawn, labels, padding=3, fontsize=8)
    axes.set_xlim(0, 1.25 * max(rates))
    axes.set_xlabel("edge-batches per second")
    axes.set_title("Simulators, 35 edges", fontsize=10)


def _draw_points(axes: Axes, found: Mapping[str, Mapping[str, Any]]) -> None:
    style_axes(axes)
    points = {name: (float(one["examples_per_second"]), float(one["auc"])) for name, one in found.items()}
    for name, (rate, auc) in points.items():
        axes.plot(rate, auc, linestyle="", markersize=7, **style_of(name).markers())
        away = -15 if _is_crowded(points[name], list(points.values())) else 7
        axes.annotate(NAMES[name], (rate, auc), xytext=(0, away), textcoords="offset points", ha="center", fontsize=8)
    axes.margins(y=0.2)
    axes.set_xlim(0, 1.2 * max(rate for rate, _ in points.values()))
    axes.set_xlabel("examples per second")
    axes.set_ylabel("AUC")
    axes.set_title("Online learners, one stream", fontsize=10)


def _is_crowded(point: tuple[float, float], points: list[tuple[float, float]]) -> bool:
    """Whether another point is where this one's name would be: near it and a little above."""
    rates, scores = zip(*points, strict=True)
    wide, high = max(rates), max(scores) - min(scores)
    return any(
        0 < score - point[1] < 0.2 * high and abs(rate - point[0]) < 0.3 * wide
        for rate, score in points
        if (rate, score) != point
    )
