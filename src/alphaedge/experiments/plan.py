"""Which cells each table and figure of the paper needs."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from alphaedge.errors import InvalidValue
from alphaedge.experiments.cell import Cell

PLAIN: Final = ("noagg", "fedweight", "uniweight")
LITERAL: Final = ("randps-paper", "nops-paper", "alphaedge-paper")
ALL: Final = (*PLAIN, *LITERAL, "randps", "nops", "alphaedge")
SOME: Final = ("noagg", "fedweight", "randps", "alphaedge-paper", "alphaedge")
APART: Final = ("fedweight", "uniweight", "alphaedge-paper", "alphaedge")
DOWN: Final = ("noagg", "fedweight", "randps-paper", "alphaedge-paper", "randps", "alphaedge")
# The variants with many edges: here peers must be chosen well.
MANY: Final[Mapping[str, str]] = {"completejourney": "completejourney-stores", "tafeng": "tafeng-areas"}
DATA: Final = ("completejourney", "tafeng", "movielens", "airquality")
# Above so many rows a data set is cut (Dataset.window): in tables, and in the many cells of figures. Others are whole.
TABLE_ROWS: Final[Mapping[str, int]] = {
    "completejourney": 600_000,
    "completejourney-stores": 1_000_000,
    "tafeng": 600_000,
    "tafeng-areas": 600_000,
}
FIGURE_ROWS: Final[Mapping[str, int]] = {**TABLE_ROWS, "movielens": 250_000}
SHARE: Final = 0.25  # of edges that are hostile, of time that an edge is down


class Sweep(NamedTuple):
    """A figure: one field of a cell over some values."""

    field: str
    values: tuple[float, ...]
    title: str
    axis: str


SWEEPS: Final[Mapping[str, Sweep]] = {
    "delay": Sweep("delay", (0, 5, 10, 20), "Feedback delay", "delay, in batches"),
    "staleness": Sweep("staleness", (0, 5, 10, 20), "Stale models", "staleness, in aggregation periods"),
    "aggregation-period": Sweep("every", (2, 5, 10, 20, 40, 100, 200), "Aggregation period", "E, batches"),
    "batch-size": Sweep("factor", (0.1, 0.5, 1, 2, 10), "Batch size", "batch size, times the data set's own"),
}
EXPERIMENTS: Final = ("table1", "table2", "table3", "many-edges", "scores-over-time", *SWEEPS)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. ``rows``: None is the rule of the experiment, 0 is all."""

    experiments: tuple[str, ...] = EXPERIMENTS
    data: tuple[str, ...] = DATA
    runs: int = 5
    rows: int | None = None

    def __post_init__(self) -> None:
        for name in self.experiments:
            if name not in EXPERIMENTS:
                raise InvalidValue("experiment", name, "all, " + ", ".join(EXPERIMENTS))
        for name in self.data:
            if name not in DATA:
                raise InvalidValue("data", name, "one of " + ", ".join(DATA))
        if len(set(self.data)) < len(self.data):
            raise InvalidValue("data", ",".join(self.data), "each once")

    def table_cell(self, data: str, method: str, model: str | None = None, **changes: object) -> Cell:
        """A cell of a table."""
        return _cell(data, method, model, self.runs, self._rows(TABLE_ROWS.get(data)), changes)

    def figure_cell(self, data: str, method: str, **changes: object) -> Cell:
        """A cell of a figure."""
        return _cell(data, method, None, self.runs, self._rows(FIGURE_ROWS.get(data)), changes)

    def _rows(self, usual: int | None) -> int | None:
        return usual if self.rows is None else self.rows or None

    def cells(self) -> list[Cell]:
        """Every cell once, data set by data set, so that each is loaded once."""
        found: dict[Cell, None] = {}
        for data in self.data:
            for experiment in self.experiments:
                found |= dict.fromkeys(self.cells_of(experiment, data))
        return list(found)

    def cells_of(self, experiment: str, data: str) -> list[Cell]:
        """The cells of one experiment on one data set."""
        if experiment == "table1":
            cells = [self.table_cell(data, m) for m in (*ALL, "prior", "pooled")]
            cells += [self.table_cell(data, m, initial="different") for m in APART]
            if data == "airquality":
                cells += [self.table_cell(data, "persistence")]
                cells += [self.table_cell(data, m, "change") for m in (*ALL, "pooled")]
            return cells
        if experiment == "table2":
            return [self.table_cell(data, m, drop=SHARE) for m in DOWN]
        if experiment == "table3":
            return [self.table_cell(data, m, adversaries=SHARE) for m in ALL]
        if experiment == "many-edges":
            shares = (0.0, SHARE) if data in MANY else ()
            return [self.table_cell(MANY[data], m, adversaries=share) for share in shares for m in SOME]
        if experiment == "scores-over-time":
            return [self.table_cell(data, m) for m in SOME]
        sweep = SWEEPS[experiment]
        return [self.figure_cell(data, m, **{sweep.field: v}) for v in sweep.values for m in SOME]


def _cell(
    data: str, method: str, model: str | None, runs: int, rows: int | None, changes: Mapping[str, object]
) -> Cell:
    cell = Cell(data=data, method=method, model=model, runs=runs, rows=rows)
    if method == "noagg":  # it neither fetches nor aggregates: one cell serves all such variations
        changes = {k: v for k, v in changes.items() if k not in ("staleness", "every", "drop")}
    return msgspec.structs.replace(cell, **dict(changes))
