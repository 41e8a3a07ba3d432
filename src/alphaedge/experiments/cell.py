"""A cell: one method on one data set in one variation, over all runs. What it found is kept in a file."""

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, final

import msgspec
import polars as pl

from alphaedge.core.methods import METHODS
from alphaedge.files import replace_file
from alphaedge.settings import MethodSettings
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.config import Settings
from alphaedge.simulation.results import RunResult

BINS = 25  # of a curve over time


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one data set in one variation. ``factor`` multiplies the data set's batch size."""

    data: str
    method: str
    model: str | None = None
    rows: int | None = None
    runs: int = 5
    delay: int = 0
    staleness: int = 0
    drop: float = 0.0
    adversaries: float = 0.0
    every: int = 20
    factor: float = 1.0
    initial: Literal["shared", "different"] = "shared"

    def settings(self) -> Settings:
        """The simulation that fills the cell."""
        size = max(1, round(CATALOG[self.data].batch_size * self.factor))
        return Settings(
            data=self.data,
            model=self.model,
            methods=(self.method if self.method in METHODS else "noagg",),
            rows=self.rows,
            seeds=self.runs,
            batch_size=size,
            initial=self.initial,
            method=MethodSettings(aggregate_every=self.every),
            conditions=Conditions(
                delay=self.delay, staleness=self.staleness, drop=self.drop, adversaries=self.adversaries
            ),
        ).resolved()

    def key(self) -> str:
        """A name for the cell's file: the same for the same settings and the same code, else another."""
        method = repr(self.settings().method.apply(self.method)) if self.method in METHODS else self.method
        text = f"{self.settings().toml()}\n{self.method}\n{method}\n{_code()}"
        return f"{self.data}-{self.method}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@cache
def _code() -> str:
    """A hash of all code that a score can depend on: a cell of other code is another cell."""
    package = resources.files("alphaedge")
    found = hashlib.sha256()
    folders = [package.joinpath(part) for part in ("core", "data", "models", "simulation")]
    files = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".py")]
    for file in sorted([*files, package.joinpath("metrics.py"), package.joinpath("settings.py")], key=str):
        found.update(file.read_bytes())
    return found.hexdigest()


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell found, a list over runs each; ``curves``: per edge, the score in each stretch of its stream."""

    per_seed: list[float | None]
    per_edge: list[list[float | None]]
    curves: list[list[float | None]]
    late: list[float | None] = []  # like per_seed, without the first quarter of all batches
    pooled: list[float | None] = []  # like per_seed, of all events of an edge at once instead of batch by batch
    losses: list[float | None] = []  # like per_seed: log loss, or mean squared error
    names: list[str] = []  # of the edges
    bytes: tuple[int, int, int] = (0, 0, 0)  # whole models, common rows, changed rows
    mixes: int = 0
    fetches: int = 0
    beyond_start: int = 0  # fetches that wanted a model from before the start and got the initial one
    seconds: float = 0.0
    notes: list[str] = []

    @classmethod
    def of(cls, outcomes: list[RunResult], notes: list[str], names: list[str]) -> "CellResult":
        """From finished runs, in the order of their seeds, of a data set whose edges have these names."""
        edges = range(len(outcomes[0].per_edge))
        curves = [curve([_edge_scores(o, e) for o in outcomes]) for e in edges]
        full, common, changed = (sum(o.bytes[i] for o in outcomes) for i in range(3))
        return cls(
            per_seed=[o.mean(o.per_edge) for o in outcomes],
            per_edge=[o.per_edge for o in outcomes],
            curves=curves,
            late=[_late(o) for o in outcomes],
            pooled=[o.mean(o.pooled) for o in outcomes],
            losses=[o.mean(o.losses) for o in outcomes],
            names=names,
            bytes=(full, common, changed),
            mixes=sum(o.weights.select("edge", "aggregation").n_unique() for o in outcomes if len(o.weights)),
            fetches=sum(int(o.fetches["count"].sum()) for o in outcomes),
            beyond_start=sum(o.beyond_start for o in outcomes),
            seconds=sum(o.seconds for o in outcomes),
            notes=notes,
        )


def _late(outcome: RunResult) -> float | None:
    scores = outcome.scores
    behind = scores.filter(pl.col("time") > pl.col("time").quantile(0.25)).group_by("edge").agg(pl.col("score").mean())
    per_edge: dict[int, float | None] = dict(behind.rows())
    return outcome.mean([per_edge.get(edge) for edge in range(len(outcome.per_edge))])


def _edge_scores(outcome: RunResult, edge: int) -> list[float | None]:
    scores: list[float | None] = outcome.scores.filter(edge=edge)["score"].to_list()
    return scores


def curve(runs: list[list[float | None]]) -> list[float | None]:
    """Mean score in each of ``BINS`` stretches of a stream, over runs; None is no score."""
    sums, counts = [0.0] * BINS, [0] * BINS
    for scores in runs:
        for i, score in enumerate(scores):
            if score is not None:
                sums[i * BINS // len(scores)] += score
                counts[i * BINS // len(scores)] += 1
    return [s / c if c else None for s, c in zip(sums, counts, strict=True)]


@final
class CellStore:
    """A folder of finished cells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, cell: Cell) -> CellResult | None:
        """What the cell found, if it is finished."""
        path = self.folder / f"{cell.key()}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=CellResult)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def put(self, cell: Cell, found: CellResult) -> None:
        """Keep what a cell found; a file is whole or not there."""
        path = self.folder / f"{cell.key()}.json"
        replace_file(path, msgspec.json.format(msgspec.json.encode(found), indent=1))
