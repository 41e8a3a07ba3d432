"""The picture of a sweep: scores with their intervals over the settings that were varied."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from matplotlib.figure import Figure

from alphaedge.experiments.grid import Point
from alphaedge.report.charts import add_legend, draw_lines, make_charts, make_message
from alphaedge.scoring import Score

MAX_CHARTS: Final = 12  # more than that nobody reads


def picture(results: Sequence[tuple[Point, str, Score | None]]) -> Figure:
    """The score over the setting with most values, a line for each method, a chart for each value of the others.

    At most ``MAX_CHARTS`` charts are drawn.
    """
    if not results:
        return make_message("No cell is finished.")
    varied = _varied([point for point, _, _ in results])
    axis = max(varied, key=lambda key: len(varied[key])) if varied else ""
    values = varied.get(axis, [None])
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    places = {repr(v): float(v) if numeric else float(n) for n, v in enumerate(values)}
    charts: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for point, method, score in results:
        rest = ", ".join(f"{_short(key)} = {point[key]}" for key in varied if key != axis)
        lines = charts.setdefault(rest, {})
        if score is not None:
            lines.setdefault(method, []).append(_place(places, point.get(axis), score))
    shown = dict(list(charts.items())[:MAX_CHARTS])
    figure, panels = make_charts(len(shown), "sweep")
    for axes, (title, lines) in zip(panels, shown.items(), strict=True):
        ordered = {method: sorted(line) for method, line in lines.items()}
        draw_lines(axes, ordered, title=title, x=_short(axis) or "one point", y="score", log=_wide(places.values()))
        if not numeric:
            axes.set_xticks(list(places.values()), ["" if v is None else str(v) for v in values])
    add_legend(figure, panels)
    return figure


def _place(places: Mapping[str, float], value: Any, score: Score) -> tuple[float, float, float]:
    return places[repr(value)], score.mean, score.ci95 or 0.0


def _varied(points: Sequence[Point]) -> dict[str, list[Any]]:
    """The settings that have more than one value, with their values in order of appearance."""
    found: dict[str, dict[str, Any]] = {}
    for point in points:
        for key, value in point.items():
            found.setdefault(key, {})[repr(value)] = value
    return {key: list(values.values()) for key, values in found.items() if len(values) > 1}


def _wide(places: Iterable[float]) -> bool:
    """Whether values span so much that a logarithmic axis shows them better."""
    known = sorted(places)
    return bool(known and known[0] > 0 and known[-1] >= 20 * known[0])


def _short(key: str) -> str:
    return key.rpartition(".")[2]
