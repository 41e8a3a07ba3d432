"""The settings of a simulation: what a configuration file holds and what the command line overrides."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, get_args

import msgspec

from alphaedge import toml
from alphaedge.core.device import check_device
from alphaedge.core.methods import METHODS
from alphaedge.core.online import Online
from alphaedge.data.stream import Dataset, Task
from alphaedge.data.synthetic import Store
from alphaedge.data.table import Table, count_by_edge, guess_columns
from alphaedge.errors import InvalidValue, check_choice, check_number
from alphaedge.import_path import is_import_path
from alphaedge.settings import MethodSettings, RowOptimizer, check_method, method_name, online
from alphaedge.simulation.batches import Clock
from alphaedge.simulation.catalog import CATALOG, Base, own_model
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.memory.size import parse_size
from alphaedge.simulation.pace import suited_pace

TABLE_SEEDS: Final = 3


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulation: data, methods, seeds, and the world they meet.

    data: a name of the catalog. model: one of its base models; None is its first.
    rows: at most so many events, those after the first quarter (Dataset.window); None is all.
    first: only this share of the events, the earliest of them; None is all.
    seeds: how many runs of each method; run s uses seed s for the model's start, the data and all that is drawn. None
        is 3 for a table, else 1.
    batch_size, rate: events per batch, rate of the model's Adam; None is what suits the data and the model. Batch
        size and E of a table, or of data from Python, follow from their events per edge (simulation.pace).
    methods: names, or import paths of functions that make a ``Method``: ``package.module:name``, or with a name of your
        own in front, ``median=package.module:name``.
    optimizer: import path of an optimizer of your own, in the place of Adam; ``rate`` is then not used.
    id_rows: the optimizer of id rows, ``"adagrad"``, or ``"lazy"`` or ``"dense"`` Adam (core.optimizer); None is what
        suits the model. id_rate: Adagrad's rate.
    clock: ``"event-time"`` or ``"batch-index"`` (simulation.timeline).
    initial: whether all edges start from one ``"shared"`` model or from ``"different"`` ones.
    executor: ``"stacked"`` steps all edges in one call; ``"one-at-a-time"`` is slow, for debugging, and agrees.
    device: where the models learn, as torch names it: ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
    memory: at most so much for all processes together, such as ``"8G"``; events are then kept in temporary files.
    """

    data: str = "synthetic"
    methods: tuple[str, ...] = (
        "alphaedge",
        "fedweight",
        "uniweight",
        "randps",
        "nops",
        "noagg",
        "alphaedge-paper",
    )
    model: str | None = None
    rows: int | None = None
    first: float | None = None
    seeds: int | None = None
    batch_size: int | None = None
    rate: float | None = None
    optimizer: str | None = None
    local_steps: int = 1
    id_rows: RowOptimizer | None = None
    id_rate: float = 0.1
    clock: Clock = "event-time"
    initial: Literal["shared", "different"] = "shared"
    executor: Literal["stacked", "one-at-a-time"] = "stacked"
    device: str = "cpu"
    memory: str | None = None
    store: Store = Store()
    table: Table | None = None
    method: MethodSettings = MethodSettings()
    conditions: Conditions = Conditions()

    def __post_init__(self) -> None:
        check_choice("data", self.data, CATALOG)
        if self.model is not None:
            check_choice("model", self.model, CATALOG[self.data].models)
        if (self.data == "table") != (self.table is not None):
            raise InvalidValue("table", self.table, "a file and its columns with data = table, and only then")
        if not self.methods:
            raise InvalidValue("methods", [], "at least one of " + ", ".join(METHODS))
        for name in self.methods:
            check_method("methods", name)
        if len({method_name(m) for m in self.methods}) < len(self.methods):
            raise InvalidValue("methods", list(self.methods), "each method once")
        for name in ("seeds", "rows", "batch_size"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, whole=True)
        if self.first is not None:
            check_number("first", self.first, above=0, high=1)
        if self.rate is not None:
            check_number("rate", self.rate, above=0)
        check_number("local_steps", self.local_steps, low=1, whole=True)
        if self.id_rows is not None:
            check_choice("id_rows", self.id_rows, get_args(RowOptimizer))
        check_number("id_rate", self.id_rate, above=0)
        check_choice("clock", self.clock, get_args(Clock))
        check_choice("initial", self.initial, ["shared", "different"])
        check_choice("executor", self.executor, ["stacked", "one-at-a-time"])
        check_device("device", self.device)
        if self.memory is not None:
            parse_size("memory", self.memory)
        for name in self.methods:
            self.method.apply(name)
        _ = self.online  # an optimizer of one's own is refused now, not later

    @property
    def base(self) -> Base:
        """The base model of the data set."""
        return CATALOG[self.data].models[self._model_name]

    @property
    def _model_name(self) -> str:
        if self.table is not None and self.model is None and self.table.task != "auto":
            return own_model(self.table.task)
        return self.model or next(iter(CATALOG[self.data].models))

    @property
    def runs(self) -> int:
        """Runs of each method."""
        return self.seeds or (1 if self.table is None else TABLE_SEEDS)

    @property
    def size(self) -> int:
        """Events per batch."""
        return self.batch_size or CATALOG[self.data].batch_size

    @property
    def model_rate(self) -> float:
        """The rate of the model's Adam."""
        return self.rate or self.base.rate

    @property
    def row_optimizer(self) -> RowOptimizer:
        """The rule of id rows."""
        return self.id_rows or self.base.rows

    @property
    def online(self) -> Online:
        """How every edge learns from a batch."""
        return online(self.model_rate, self.row_optimizer, self.id_rate, self.local_steps, self.optimizer)

    def resolved(self) -> "Settings":
        """The settings with what suits the data in the place of every None, and a table's columns guessed."""
        if self.table is not None:
            return msgspec.structs.replace(self, table=guess_columns(self.table))._paced()._filled()
        return self._filled()

    def _filled(self) -> "Settings":
        known = {"batch_size": self.size, "rate": self.model_rate, "id_rows": self.row_optimizer, "seeds": self.runs}
        return msgspec.structs.replace(self, **known, model=self._model_name)

    def _paced(self) -> "Settings":
        """The settings of a table with the batch size and E that its rows suggest, where they are not named."""
        if self.table is None or self.has_pace:
            return self
        counts = count_by_edge(self.table)
        share = self.first or min(1.0, (self.rows or sum(counts)) / max(1, sum(counts)))
        task: Task = "classify" if self.table.task == "classify" else "regress"
        return self._with_pace([round(count * share) for count in counts], task)

    @property
    def has_pace(self) -> bool:
        """Whether batch size and E are named."""
        return bool(self.batch_size and self.method.aggregate_every)

    def _with_pace(self, counts: Sequence[int], task: Task) -> "Settings":
        """The settings with a batch size and an E that suit so many events by edge, where they are not named."""
        if not sum(counts):
            return self  # loading them says what is wrong
        pace = suited_pace(round(median(counts)), task)
        every = self.method.aggregate_every or pace.aggregate_every
        method = msgspec.structs.replace(self.method, aggregate_every=every)
        return msgspec.structs.replace(self, batch_size=self.batch_size or pace.batch_size, method=method)

    def for_own_data(self, data: Dataset, *, own_model_given: bool) -> "Settings":
        """The settings with what suits data from Python, and their default model, in the place of None."""
        found = self._with_pace([len(stream) for stream in data.streams], data.task)
        if own_model_given:
            return found
        base = CATALOG["table"].models[own_model(data.task)]
        return msgspec.structs.replace(found, rate=self.rate or base.rate, id_rows=self.id_rows or base.rows)

    def toml(self) -> str:
        """The settings as a configuration file that gives this simulation again."""
        return toml.dumps(self)


def load(path: Path, overrides: dict[str, Any] | None = None) -> Settings:
    """Read a configuration file; ``overrides`` (nested like the file) win."""
    return build(read(path, overrides))


def read(path: Path, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read a configuration file as nested plain values, with overrides.

    The file of a results folder may come from anywhere, so no import path is taken from it: that would run code.
    """
    raw = toml.merge(toml.read(path), overrides or {})
    if (path.parent / "summary.json").exists():
        given = _import_paths(overrides or {})
        for field, found in _import_paths(raw).items():
            if given.get(field) != found:
                raise InvalidValue(field, found, "no import path from a results folder; give it on the command line")
    return raw


def build(raw: dict[str, Any]) -> Settings:
    """Settings from nested plain values, as a file or the command line gives them."""
    return toml.build(raw, Settings)


def _import_paths(raw: dict[str, Any]) -> dict[str, Any]:
    """The settings that would import code, by their names."""
    method = raw.get("method", {})
    named = (
        {f"method.{key}": method.get(key) for key in ("aggregation", "selection")} if isinstance(method, dict) else {}
    )
    listed = raw.get("methods", [])
    methods = [m for m in (listed if isinstance(listed, list) else []) if isinstance(m, str) and is_import_path(m)]
    named |= {"optimizer": raw.get("optimizer"), "methods": methods or None}
    return {name: value for name, value in named.items() if value is not None}
