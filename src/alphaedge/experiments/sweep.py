"""A sweep: methods compared at every point of a grid of settings, with one tidy table and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
import polars as pl

from alphaedge import toml
from alphaedge.data.table.reading import find_files
from alphaedge.experiments.cell import CellResult, Runnable, cell_key
from alphaedge.experiments.cell_store import CellStore
from alphaedge.experiments.grid import Point, nested
from alphaedge.experiments.run_cells import Report, run_cells
from alphaedge.experiments.scores import cell_score
from alphaedge.experiments.sweep_picture import picture
from alphaedge.files import replace_file
from alphaedge.report.charts import save as save_figure
from alphaedge.settings import MethodSettings, method_name
from alphaedge.simulation.config import Settings, build
from alphaedge.simulation.workers.protocol import Workers

_COLUMNS: Final = {
    "method": pl.String,
    "seed": pl.Int64,
    "edge": pl.String,
    "hostile": pl.Boolean,
    "score": pl.Float64,
}
Results = Sequence[tuple[Point, str, CellResult]]  # finished cells: the point, the method's name, what was found


@final
class SweepCell(msgspec.Struct, frozen=True, kw_only=True):
    """One method at one point of the grid, as ``run_cells`` runs it."""

    method: str
    whole: Settings

    @property
    def runs(self) -> int:
        """How many seeds."""
        return self.whole.runs

    def settings(self) -> Settings:
        """The settings of the simulation. An edge that learns alone has no use for those of the method."""
        chosen = self.whole.method.apply(self.method)
        method = self.whole.method if chosen.aggregation.uses_peers else MethodSettings()
        return msgspec.structs.replace(self.whole, methods=(self.method,), method=method)

    def key(self) -> str:
        """Name the cell's file. A table counts as another one when one of its files has changed."""
        if self.whole.table is None:
            return cell_key(self.settings(), self.method)
        found = [file.stat() for file in find_files(self.whole.table.file)]
        return cell_key(self.settings(), self.method, *(part for f in found for part in (f.st_size, f.st_mtime_ns)))


@final
class Sweep:
    """Methods at the points of a grid. base: settings as a configuration file has them; a point overrides them."""

    def __init__(self, base: Mapping[str, Any], points: Sequence[Point]) -> None:
        self.points = list(points)
        self.settings = [build(toml.merge(dict(base), nested(point))).resolved() for point in points]
        self.methods = list(self.settings[0].methods)

    def cells(self) -> list[SweepCell]:
        """Every cell, point by point."""
        return [SweepCell(method=m, whole=settings) for settings in self.settings for m in self.methods]

    def run(self, store: CellStore, *, workers: Workers, report: Report) -> None:
        """Run the cells that are not in the store."""
        wanted: dict[str, Runnable] = {cell.key(): cell for cell in self.cells()}
        run_cells(wanted.values(), store, workers, report)

    def results(self, store: CellStore) -> Results:
        """Every finished cell, with its point and the name of its method."""
        cells = zip((p for p in self.points for _ in self.methods), self.cells(), strict=True)
        found = [(point, method_name(cell.method), store.get(cell)) for point, cell in cells]
        return [(point, name, result) for point, name, result in found if result is not None]


def tidy(results: Results) -> pl.DataFrame:
    """One row for each point, method, seed and edge: the settings of the point, and the edge's score.

    A mean over the edges that are not hostile is what the summary says.
    """
    rows = [
        {**_plain(point), "method": method, "seed": seed, "edge": name, "hostile": place in hostile, "score": score}
        for point, method, result in results
        for seed, (scores, hostile) in enumerate(zip(result.per_edge, result.hostile, strict=True))
        for place, (name, score) in enumerate(zip(result.names, scores, strict=True))
    ]
    return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=_COLUMNS)


def summary(results: Results) -> list[dict[str, Any]]:
    """One entry for each point and method: mean score, half of its 95% interval, seconds, and why there is none."""
    found = []
    for point, method, result in results:
        score = cell_score(result)
        found.append(
            {
                "settings": dict(point),
                "method": method,
                "mean": score.mean if score else None,
                "ci95": score.ci95 if score else None,
                "per_seed": result.per_seed,
                "seconds": result.seconds,
                "notes": result.notes,
            }
        )
    return found


def save(sweep: Sweep, results: Results, folder: Path) -> None:
    """Write ``sweep.parquet``, ``summary.json``, the first point's ``config.toml`` and the picture (PNG and SVG)."""
    replace_file(folder / "config.toml", sweep.settings[0].toml().encode())
    tidy(results).write_parquet(folder / "sweep.parquet")
    replace_file(folder / "summary.json", msgspec.json.format(msgspec.json.encode(summary(results)), indent=2))
    lines = [(point, method, cell_score(result)) for point, method, result in results]
    for name in ("sweep.png", "sweep.svg"):
        save_figure(picture(lines), folder / name)


def _plain(point: Point) -> dict[str, Any]:
    return {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in point.items()}
