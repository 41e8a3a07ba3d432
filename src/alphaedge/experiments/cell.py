"""A cell of a results table: one method on one data set under one variation, over several runs; and its result."""

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal, Protocol

import msgspec
import polars as pl

from alphaedge.core.methods import METHODS
from alphaedge.experiments.source_hash import source_hash
from alphaedge.import_path import is_import_path, source_of
from alphaedge.scoring import mean
from alphaedge.settings import MethodSettings, PrivacySettings, method_name
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_result import RunResult

CURVE_SEGMENTS: Final = 25  # equal parts of a stream, each with one score
# Fields of users and of ids that may be told, and how long a day is in the data's unit of time.
PRIVATE_FIELDS: Final[Mapping[str, tuple[str | None, tuple[str, ...], float]]] = {
    "movielens": ("user", ("movie",), 86_400.0),
    "tafeng": ("customer", ("product",), 1.0),
    "airquality": (None, (), 86_400.0),
}
BASELINES: Final = ("prior", "persistence", "pooled")  # what is no method, but stands in a table beside them


class Runnable(Protocol):
    """What ``run_cells`` runs: one method under one simulation's settings, over several runs."""

    @property
    def method(self) -> str:
        """A method's name or import path, or a baseline of ``BASELINES``."""
        ...

    @property
    def runs(self) -> int:
        """How many seeds, from 0 on."""
        ...

    def settings(self) -> Settings:
        """The settings of the simulation."""
        ...

    def key(self) -> str:
        """A name that is equal for equal work, and different otherwise."""
        ...


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. ``batch_factor`` multiplies the data set's batch size; other fields are those of a simulation.

    aggregate_every: None is what the method has: 5, and 20 in the literal readings.
    epsilon: of private publication, for each day; None is none. protect: whom.
    """

    data: str
    method: str
    model: str | None = None
    rows: int | None = None
    first: float | None = None
    runs: int = 5
    delay: int = 0
    staleness: int = 0
    drop: float = 0.0
    adversaries: float = 0.0
    attack: str = "flipped-labels"
    aggregate_every: int | None = None
    batch_factor: float = 1.0
    initial: Literal["shared", "different"] = "shared"
    epsilon: float | None = None
    protect: Literal["event", "user"] = "event"

    def settings(self) -> Settings:
        """Build the settings of the simulation that fills this cell."""
        size = max(1, round(CATALOG[self.data].batch_size * self.batch_factor))
        return Settings(
            data=self.data,
            model=self.model,
            methods=(self.method if self.method in METHODS else "noagg",),
            rows=self.rows,
            first=self.first,
            seeds=self.runs,
            batch_size=size,
            initial=self.initial,
            method=MethodSettings(aggregate_every=self.aggregate_every, privacy=self._privacy()),
            conditions=Conditions(
                delay=self.delay,
                staleness=self.staleness,
                drop=self.drop,
                adversaries=self.adversaries,
                attack=self.attack,
            ),
        ).resolved()

    def _privacy(self) -> PrivacySettings | None:
        if self.epsilon is None:
            return None
        user, ids, day = PRIVATE_FIELDS[self.data]
        chosen = user if self.protect == "user" else None
        return PrivacySettings(epsilon=self.epsilon, user=chosen, tables=ids, window_seconds=day)

    def key(self) -> str:
        """Name the cell's file: equal for equal settings and equal source code, different otherwise."""
        return cell_key(self.settings(), self.method)


def cell_key(settings: Settings, method: str, *more: object) -> str:
    """Name a cell's file by all that its result depends on; ``more``: what the settings do not say.

    Code of a user's own, named by import paths, counts by the source of the modules that the paths name.
    """
    paths = (method, settings.method.aggregation, settings.method.selection, settings.optimizer)
    sources = [source_of(path) for path in paths if path and is_import_path(path)]
    chosen = repr(settings.method.apply(method)) if not sources and method not in BASELINES else method
    text = "\n".join([settings.toml(), method, chosen, source_hash(), *sources, *map(str, more)])
    name = re.sub(r"[^\w.-]", "_", method_name(method))
    return f"{settings.data}-{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """The scores and costs of a cell. Lists named ``per_*`` and those like them have one entry per run."""

    per_seed: list[float | None]
    per_edge: list[list[float | None]]
    curves: list[list[float | None]]  # per edge: the mean score in each segment of its stream
    late: list[float | None] = []  # like per_seed, without the first quarter of all batches
    pooled: list[float | None] = []  # like per_seed, over all events of an edge at once instead of batch by batch
    losses: list[float | None] = []  # like per_seed: log loss, or mean squared error
    first_sight: list[list[float | None]] = []  # like per_edge, over the events that name an id new to the edge
    batches: list[int] = []  # of each edge
    names: list[str] = []  # of the edges
    bytes: tuple[int, int, int] = (0, 0, 0)  # of whole models, of common rows, of changed rows
    mixes: int = 0
    pulls: int = 0
    hostile: list[list[int]] = []  # by run, the edges that attack
    hostile_share: float | None = None  # mean share of the hostile edges in the honest ones' mixes
    beyond_start: int = 0  # pulls that asked for a model from before the start and got the initial one
    seconds: float = 0.0
    notes: list[str] = []

    @classmethod
    def of(cls, runs: list[RunResult], notes: list[str], names: list[str]) -> "CellResult":
        """Summarise finished runs, given in the order of their seeds. ``names`` are those of the data set's edges."""
        edges = range(len(runs[0].per_edge))
        full, common, changed = (sum(r.bytes[i] for r in runs) for i in range(3))
        return cls(
            per_seed=[r.mean(r.per_edge) for r in runs],
            per_edge=[r.per_edge for r in runs],
            curves=[curve([_edge_scores(r, e) for r in runs]) for e in edges],
            late=[_late_score(r) for r in runs],
            pooled=[r.mean(r.pooled) for r in runs],
            losses=[r.mean(r.losses) for r in runs],
            first_sight=[r.first_sight for r in runs],
            batches=[len(runs[0].scores.filter(edge=e)) for e in edges],
            names=names,
            bytes=(full, common, changed),
            mixes=sum(r.weights.select("edge", "aggregation").n_unique() for r in runs if len(r.weights)),
            pulls=sum(int(r.pulls.drop_nulls("peer")["count"].sum()) for r in runs),
            hostile=[[edge for edge, honest in enumerate(r.honest) if not honest] for r in runs],
            hostile_share=mean([share for r in runs if (share := r.hostile_share()) is not None]),
            beyond_start=sum(r.beyond_start for r in runs),
            seconds=sum(r.seconds for r in runs),
            notes=notes,
        )


def curve(runs: list[list[float | None]]) -> list[float | None]:
    """Average the batch scores of one edge, over all runs, in each of ``CURVE_SEGMENTS`` segments of its stream."""
    sums, counts = [0.0] * CURVE_SEGMENTS, [0] * CURVE_SEGMENTS
    for scores in runs:
        for i, score in enumerate(scores):
            if score is not None:
                sums[i * CURVE_SEGMENTS // len(scores)] += score
                counts[i * CURVE_SEGMENTS // len(scores)] += 1
    return [s / c if c else None for s, c in zip(sums, counts, strict=True)]


def _late_score(run: RunResult) -> float | None:
    late = run.scores.filter(pl.col("time") > pl.col("time").quantile(0.25))
    per_edge: dict[int, float | None] = dict(late.group_by("edge").agg(pl.col("score").mean()).rows())
    return run.mean([per_edge.get(edge) for edge in range(len(run.per_edge))])


def _edge_scores(run: RunResult, edge: int) -> list[float | None]:
    scores: list[float | None] = run.scores.filter(edge=edge)["score"].to_list()
    return scores
