"""Score against bytes on MovieLens: in which precision models are published, how far a row must have moved for it, and
what the rows of a publication may take.

For each setting, a simulation of AlphaEdge: its AUC, and the bytes of parameters of an average pull as a share of the
whole model in float32 (``core.exchange.Traffic``: what has changed, over all that the sender holds). Requests and
headers come on top; ``benchmarks.transfer`` counts them. Settings may be chosen on the first quarter of the stream
(``--first``); without that, the events after it count.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from matplotlib.figure import Figure

from alphaedge import MethodSettings
from alphaedge.data.synthetic import Store
from alphaedge.report.charts import make_chart, save
from alphaedge.simulation.config import Settings
from alphaedge.simulation.simulate import simulate
from benchmarks.common import arguments, report

ROWS: Final = 250_000
QUARTER: Final = 0.25
GOAL: Final = 0.10  # of the whole model, in an average pull
MAX_LOSS: Final = 0.001  # of AUC
SETTINGS: Final = (
    MethodSettings(precision="full"),
    MethodSettings(precision="bfloat16"),
    MethodSettings(precision="int8"),
    MethodSettings(precision="int8", min_change=0.2),
    MethodSettings(precision="int8", min_change=0.5),
    MethodSettings(precision="int8", min_change=1.0),
    MethodSettings(precision="int8", publish_bytes=3000),
    MethodSettings(precision="int8", publish_bytes=2000),
    MethodSettings(precision="int8", publish_bytes=1000),
    MethodSettings(precision="int8", publish_bytes=500),
)


@final
@dataclass(frozen=True)
class Point:
    """What came of one setting. changed, full: bytes of an average pull, and of everything that the sender holds."""

    method: MethodSettings
    auc: float
    changed: float
    full: float

    @property
    def kind(self) -> str:
        """The curve that it belongs to."""
        if self.method.publish_bytes:
            return "int8, publish_bytes"
        return "int8, min_change" if self.method.min_change else str(self.method.precision)

    @property
    def value(self) -> str:
        """What varies along its curve."""
        return f"{self.method.publish_bytes or self.method.min_change or 0:g}"

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"{self.kind} {self.value}" if self.method.publish_bytes or self.method.min_change else self.kind


def measure(settings: Settings, method: MethodSettings) -> Point:
    """Simulate a setting."""
    found = simulate(Settings(
        data=settings.data, store=settings.store, rows=settings.rows, first=settings.first, seeds=settings.seeds,
        methods=("alphaedge",), method=method,
    ))  # fmt: skip
    row, pulls = found.summary()["methods"]["alphaedge"], int(found.pulls["count"].sum())
    return Point(method, row["mean"], row["bytes"]["changed"] / pulls, row["bytes"]["full"] / pulls)


def draw(points: list[Point], whole: float) -> Figure:
    """Draw AUC over the share of an average pull. whole: bytes of a whole model."""
    figure, axes = make_chart("AUC over the bytes of a pull")
    for kind, marker in zip(dict.fromkeys(p.kind for p in points), "sDo^v", strict=False):
        some = sorted((p for p in points if p.kind == kind), key=lambda p: p.changed)
        axes.plot([p.changed / whole for p in some], [p.auc for p in some], marker=marker, label=kind)
        for p in some:
            if p.name != p.kind:
                place = (p.changed / whole, p.auc)
                axes.annotate(p.value, place, textcoords="offset points", xytext=(5, -12), fontsize=8)
    axes.axvline(GOAL, color="grey", linewidth=0.8, linestyle=":")
    axes.axhline(points[0].auc - MAX_LOSS, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xlabel("parameters of an average pull, as a share of the whole model in float32")
    axes.set_ylabel("AUC")
    axes.set_title("Numbers at points: min_change, or publish_bytes; dotted: the goal", fontsize=10)
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Print AUC and shares, and write the figures and the picture."""
    options = arguments(
        "AUC against the bytes of a pull, by precision, min_change and publish_bytes.",
        first={"action": "store_true", "help": "learn from the first quarter of the stream, to choose on"},
        seeds={"type": int, "default": 1, "help": "runs of each setting"},
        picture={"type": Path, "metavar": "FILE", "help": "draw the picture into this file"},
    )
    if options.quick:
        settings = Settings(store=Store(edges=3, events=1000))
    elif options.first:
        settings = Settings(data="movielens", first=QUARTER, seeds=options.seeds)
    else:
        settings = Settings(data="movielens", rows=ROWS, seeds=options.seeds)
    points = [measure(settings, method) for method in SETTINGS]
    best, whole = points[0].auc, points[0].full
    rows = [
        [p.name, f"{p.auc:.4f}", f"{p.auc - best:+.4f}", f"{p.changed:,.0f}", f"{p.changed / whole:.3f}"]
        for p in points
    ]
    figures = {p.name: {"auc": p.auc, "bytes": p.changed, "share": p.changed / whole} for p in points}
    headers = ["setting", "AUC", "to full", "bytes of a pull", "share"]
    report("AUC and bytes", headers, rows, figures, options.json)
    if options.picture:
        save(draw(points, whole), options.picture)


if __name__ == "__main__":
    main()
