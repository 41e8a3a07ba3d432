"""The experiments: the paper's, what it is worth, the development suite; and the cells that each of them needs."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from alphaedge.attacks.catalog import ATTACKS
from alphaedge.core.methods import METHODS, RIVALS
from alphaedge.errors import InvalidValue
from alphaedge.experiments.cell import PRIVATE_FIELDS, Cell
from alphaedge.experiments.suites import DATA_SETS, DEVELOPMENT, REPORTING, early_share

PLAIN_METHODS: Final = ("noagg", "fedweight", "uniweight")
PAPER_METHODS: Final = ("randps-paper", "nops-paper", "alphaedge-paper")
ALL_METHODS: Final = (*PLAIN_METHODS, *PAPER_METHODS, "randps", "nops", "alphaedge")
ATTACK_METHODS: Final = (*ALL_METHODS[:-1], "alphaedge-trusting", "alphaedge")
MAIN_METHODS: Final = ("noagg", "fedweight", "randps", "alphaedge-paper", "alphaedge")
DIFFERENT_START_METHODS: Final = ("fedweight", "uniweight", "alphaedge-paper", "alphaedge")
DEVELOPMENT_METHODS: Final = ("noagg", "fedweight", "randps", "alphaedge", "pooled")
WORTH_METHODS: Final = ("noagg", "alphaedge", "pooled")
UNREACHABLE_METHODS: Final = ("noagg", "fedweight", "randps-paper", "alphaedge-paper", "randps", "alphaedge")
# Variants with more edges than an edge can have neighbours, so that the choice matters.
MANY_EDGES: Final[Mapping[str, str]] = {"completejourney": "completejourney-stores", "tafeng": "tafeng-areas"}
# Larger data sets are cut to these numbers of rows (Dataset.window), in tables and in figures, which have more cells.
TABLE_ROWS: Final[Mapping[str, int]] = {
    "completejourney": 600_000,
    "completejourney-stores": 1_000_000,
    "tafeng": 600_000,
    "tafeng-areas": 600_000,
}
FIGURE_ROWS: Final[Mapping[str, int]] = {**TABLE_ROWS, "movielens": 250_000}
DEVELOPMENT_ROWS: Final = 200_000  # of each data set, so that a choice takes minutes
EPSILONS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)  # for each day
FAULTY_SHARE: Final = 0.25  # of the edges that are hostile, of the time that an edge is unreachable


class Sweep(NamedTuple):
    """A figure that varies one field of a cell."""

    field: str
    values: tuple[float, ...]
    title: str
    axis: str


SWEEPS: Final[Mapping[str, Sweep]] = {
    "delay": Sweep("delay", (0, 5, 10, 20), "Feedback delay", "delay, in batches"),
    "staleness": Sweep("staleness", (0, 5, 10, 20), "Stale models", "staleness, in aggregation periods"),
    "aggregation-period": Sweep("aggregate_every", (2, 5, 10, 20, 40, 100, 200), "Aggregation period", "E, batches"),
    "batch-size": Sweep("batch_factor", (0.1, 0.5, 1, 2, 10), "Batch size", "batch size, times the data set's own"),
}
EXPERIMENTS: Final = ("table1", "table2", "table3", "many-edges", "scores-over-time", *SWEEPS, "attacks")
OTHER_EXPERIMENTS: Final = ("worth", "privacy", "development")  # what is not part of `all`


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The experiments to run.

    data: data sets of the paper's experiments. development: those of the development suite. reporting: those that only
    ``worth`` has, besides ``data``. rows: per data set; None means ``TABLE_ROWS``, ``FIGURE_ROWS`` and
    ``DEVELOPMENT_ROWS``, 0 means all.
    rivals: whether the rivals from the literature (``core.methods.RIVALS``) join table 1, table 3 and the attacks.
    """

    experiments: tuple[str, ...] = EXPERIMENTS
    data: tuple[str, ...] = DATA_SETS
    development: tuple[str, ...] = DEVELOPMENT
    reporting: tuple[str, ...] = REPORTING
    runs: int = 5
    rows: int | None = None
    rivals: bool = False

    def __post_init__(self) -> None:
        for name in self.experiments:
            if name not in (*EXPERIMENTS, *OTHER_EXPERIMENTS):
                raise InvalidValue("experiment", name, "all, " + ", ".join((*EXPERIMENTS, *OTHER_EXPERIMENTS)))
        for chosen, allowed in (
            (self.data, DATA_SETS),
            (self.development, DEVELOPMENT),
            (self.reporting, REPORTING),
        ):
            for name in chosen:
                if name not in allowed:
                    known = (*allowed, *REPORTING) if "worth" in self.experiments else allowed
                    raise InvalidValue("data", name, "one of " + ", ".join(known))
            if len(set(chosen)) < len(chosen):
                raise InvalidValue("data", ",".join(chosen), "each once")
        for experiment in self.experiments:
            if not self.data_of(experiment):
                raise InvalidValue("data", None, f"at least one data set of {experiment}")

    def data_of(self, experiment: str) -> tuple[str, ...]:
        """Return the data sets of an experiment."""
        if experiment == "development":
            return self.development
        if experiment == "privacy":
            return tuple(data for data in self.data if data in PRIVATE_FIELDS)
        return (*self.data, *self.reporting) if experiment == "worth" else self.data

    @property
    def only_development(self) -> bool:
        """Whether the development suite is all that is asked for."""
        return self.experiments == ("development",)

    @property
    def all_data(self) -> tuple[str, ...]:
        """The data sets of all experiments, each once."""
        return tuple(dict.fromkeys(data for experiment in self.experiments for data in self.data_of(experiment)))

    def table_cell(self, data: str, method: str, model: str | None = None, **changes: object) -> Cell:
        """Return a cell of a table."""
        return _cell(data, method, model, self.runs, self._rows(TABLE_ROWS.get(data)), changes)

    def figure_cell(self, data: str, method: str, **changes: object) -> Cell:
        """Return a cell of a figure."""
        return _cell(data, method, None, self.runs, self._rows(FIGURE_ROWS.get(data)), changes)

    def attack_cell(self, data: str, method: str, attack: str | None) -> Cell:
        """Return a cell of the table of attacks; None: all edges are honest."""
        hostile = {} if attack is None else {"adversaries": FAULTY_SHARE, "attack": attack}
        return self.figure_cell(data, method, **hostile)

    @property
    def literature(self) -> tuple[str, ...]:
        """The rivals from the literature that take part."""
        return tuple(RIVALS) if self.rivals else ()

    @property
    def table_methods(self) -> tuple[str, ...]:
        """The methods of tables 1 and 3."""
        return (*ALL_METHODS[:-1], *self.literature, ALL_METHODS[-1])

    def development_cell(self, data: str, method: str) -> Cell:
        """Return a cell of the development suite, which sees nothing of what is for reporting only."""
        rows = self._rows(DEVELOPMENT_ROWS)
        first = early_share(data, rows)
        # A cut by rows would begin after the first quarter, so the early part is cut by its share.
        return _cell(data, method, None, self.runs, rows if first is None else None, {"first": first})

    def _rows(self, default: int | None) -> int | None:
        return default if self.rows is None else self.rows or None

    def cells(self) -> list[Cell]:
        """List every cell once, data set by data set, so that each data set is loaded once."""
        cells: dict[Cell, None] = {}
        for data in self.all_data:
            for experiment in self.experiments:
                if data in self.data_of(experiment):
                    cells |= dict.fromkeys(self.cells_of(experiment, data))
        return list(cells)

    def cells_of(self, experiment: str, data: str) -> list[Cell]:
        """List the cells of one experiment on one data set."""
        if experiment == "table1":
            cells = [self.table_cell(data, m) for m in (*self.table_methods, "prior", "pooled")]
            cells += [self.table_cell(data, m, initial="different") for m in DIFFERENT_START_METHODS]
            if data == "airquality":
                cells += [self.table_cell(data, "persistence")]
                cells += [self.table_cell(data, m, "change") for m in (*ALL_METHODS, "pooled")]
            return cells
        if experiment == "table2":
            return [self.table_cell(data, m, drop=FAULTY_SHARE) for m in UNREACHABLE_METHODS]
        if experiment == "table3":
            return [self.table_cell(data, m, adversaries=FAULTY_SHARE) for m in self.table_methods]
        if experiment == "many-edges":
            shares = (0.0, FAULTY_SHARE) if data in MANY_EDGES else ()
            return [self.table_cell(MANY_EDGES[data], m, adversaries=share) for share in shares for m in MAIN_METHODS]
        if experiment == "scores-over-time":
            return [self.table_cell(data, m) for m in MAIN_METHODS]
        if experiment == "worth":
            return [self.table_cell(data, m) for m in WORTH_METHODS]
        if experiment == "privacy":
            found = [self.figure_cell(data, m) for m in ("noagg", "alphaedge")]
            for protect in protected(data):
                found += [self.figure_cell(data, "alphaedge", epsilon=e, protect=protect) for e in EPSILONS]
            return found
        if experiment == "development":
            return [self.development_cell(data, m) for m in DEVELOPMENT_METHODS]
        if experiment == "attacks":
            methods = (*ATTACK_METHODS, *self.literature)
            return [self.attack_cell(data, m, attack) for attack in (None, *ATTACKS) for m in methods]
        sweep = SWEEPS[experiment]
        return [self.figure_cell(data, m, **{sweep.field: v}) for v in sweep.values for m in MAIN_METHODS]


def protected(data: str) -> tuple[str, ...]:
    """Whom private publication can protect in a data set."""
    return ("event",) if PRIVATE_FIELDS[data][0] is None else ("event", "user")


def _cell(
    data: str, method: str, model: str | None, runs: int, rows: int | None, changes: Mapping[str, object]
) -> Cell:
    cell = Cell(data=data, method=method, model=model, runs=runs, rows=rows)
    if method == "noagg":  # it never aggregates, so one cell serves all these variations
        changes = {k: v for k, v in changes.items() if k not in ("staleness", "aggregate_every", "drop", "attack")}
    elif method in METHODS and changes.get("aggregate_every") == METHODS[method]().aggregate_every:
        changes = {k: v for k, v in changes.items() if k != "aggregate_every"}  # the cell of the defaults serves
    return msgspec.structs.replace(cell, **dict(changes))
