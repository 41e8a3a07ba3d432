"""Find settings for a data set: search on its first part, confirm there, and report on the rest.

1. Trials with one seed on the first part of the events, in order of time. A trial's score is prequential (every batch
   is predicted before it is learned from) and leaves out the first third of the part, in which every model is new.
2. The best of them and the defaults with further seeds, on the same part. The winner is taken if its gain is larger
   than the gain's standard error over the edges; otherwise the defaults stay.
3. Winner and defaults on the whole stream, scored on the events after the part, which no choice was made on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
import polars as pl

from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue, check_number
from alphaedge.experiments.scores import Score, difference, score_of_runs
from alphaedge.scoring import mean
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.task import Task
from alphaedge.simulation.workers import Workers
from alphaedge.tuning.search import Search, Trial
from alphaedge.tuning.space import changed, knobs

Values = Mapping[str, Any]  # of settings, by their keys
# Called with the phase (search, confirm, report), the share of it that is done, and a line about it.
Report = Callable[[str, float, str], None]
Reporting = Callable[[float, str], None]
FINALISTS: Final = 4  # trials that are confirmed
CONFIRMING_SEEDS: Final = (1, 2)
SETTLING: Final = 1 / 3  # of the part: too early to tell good settings from bad ones
RUNS: Final = 3  # of the report


@final
class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``values``: the settings that differ from the defaults; empty if those stay.

    on_part: score of the values and of the defaults on the part that was searched on, over all seeds that ran there.
    on_rest: the same on the events after it.
    bytes, seconds: what an edge pulled and computed over the whole stream, as a multiple of the same by the defaults;
        None where the defaults pull nothing.
    """

    settings: Settings
    method: str
    part: float
    values: dict[str, Any]
    trials: list[Trial]
    importances: dict[str, float]
    on_part: tuple[Score, Score]
    on_rest: tuple[Score, Score]
    bytes: float | None
    seconds: float

    @property
    def gain(self) -> Score | None:
        """By how much the values beat the defaults on the rest, seed by seed."""
        return difference(*self.on_rest)


@final
class Tuning:
    """A search for settings, to be run on some workers.

    settings: all that is not varied, ``first`` aside. part: share of the events to search on. only: keys to vary.
    """

    def __init__(self, settings: Settings, workers: Workers, *, part: float, only: Sequence[str] = ()) -> None:
        check_number("part", part, above=0, below=1)
        if len(settings.methods) != 1:
            raise InvalidValue("methods", list(settings.methods), "one method to tune")
        self.settings, self.workers, self.share = settings.resolved(), workers, part
        self.method = self.settings.methods[0]
        self.on_part = changed(self.settings, {}, first=part)
        self.part = workers.cache.data(self.on_part, 0)
        self.knobs = knobs(self.on_part, self.method, self.part, only)
        self.defaults = {knob.key: knob.default for knob in self.knobs}

    def run(
        self, journal: Path, *, budget: float, trials: int | None, clock: Callable[[], float], report: Report
    ) -> Tuned:
        """Search for ``budget`` seconds of ``clock``, or so many trials; then confirm and report."""
        early = self.part.first(SETTLING)
        search = Search(self.on_part, self.method, self.knobs, partial(score_after, early), journal)
        began = clock()

        def tell() -> None:
            finished = search.trials()
            share = max((clock() - began) / budget, len(finished) / trials if trials else 0.0)
            report("search", min(1.0, share), _describe(finished))

        search.run(self.workers, time_left=lambda: clock() - began < budget, most=trials, watch=tell)
        found = search.trials()
        finalists = [self.defaults, *_finalists(found, self.defaults)]
        default, *others = self._run(finalists, self.on_part, CONFIRMING_SEEDS, early, partial(report, "confirm"))
        best = max(others, key=lambda c: c.score.mean, default=default)
        winner = best if is_clear(best.per_edge, default.per_edge) else default
        compared = [self.defaults] if winner is default else [self.defaults, winner.values]
        rest = self._run(compared, self.settings, range(RUNS), self.part, partial(report, "report"))
        return Tuned(
            settings=changed(self.settings, winner.values),
            method=self.method,
            part=self.share,
            values={key: value for key, value in winner.values.items() if value != self.defaults[key]},
            trials=found,
            importances=dict(search.importances()),
            on_part=(winner.score, default.score),
            on_rest=(rest[-1].score, rest[0].score),
            bytes=rest[-1].bytes / rest[0].bytes if rest[0].bytes else None,
            seconds=rest[-1].seconds / rest[0].seconds,
        )

    def _run(
        self, candidates: Sequence[Values], base: Settings, seeds: Sequence[int], after: Dataset, report: Reporting
    ) -> list["_Candidate"]:
        """Score candidates on the events that come after others."""
        settings = [changed(base, values) for values in candidates]
        tasks = [
            Task(s, f"candidate-{n}", s.method.apply(self.method), tuple(seeds), None, None)
            for n, s in enumerate(settings)
        ]
        done = dict.fromkeys(range(len(tasks)), 0.0)
        found: dict[int, _Candidate] = {}

        def watch(name: str, progress: Progress) -> None:
            number = int(name.partition("/")[0].rpartition("-")[2])
            done[number] = progress.batches / max(1, progress.total)
            report(sum(done.values()) / len(tasks), f"{len(tasks)} candidates, {len(seeds)} seeds each")

        for results, _ in self.workers.run(tasks, watch):
            number = int(results[0].method.rpartition("-")[2])
            scored = [scores_after(after, run, settings[number].size) for run in results]
            runs = [r.mean(edges) for r, edges in zip(results, scored, strict=True)]
            per_edge = [mean(edge) for edge in zip(*scored, strict=True)]
            score = score_of_runs(runs) or Score(-math.inf, None, tuple(runs))
            cost = sum(r.bytes[2] for r in results), sum(r.seconds for r in results)
            found[number] = _Candidate(candidates[number], score, per_edge, *cost)
        return [found[number] for number in range(len(tasks))]


class _Candidate(NamedTuple):
    """Values that were tried with several seeds: the score, the mean score of each edge, and the cost of all runs."""

    values: Values
    score: Score
    per_edge: list[float | None]
    bytes: int
    seconds: float


def score_after(early: Dataset, run: RunResult, size: int) -> float | None:
    """The mean score of the honest edges on the batches that begin after the events of ``early``."""
    return run.mean(scores_after(early, run, size))


def scores_after(early: Dataset, run: RunResult, size: int) -> list[float | None]:
    """The mean score of each edge on the batches, of ``size`` events, that begin after the events of ``early``."""
    events = pl.DataFrame({"edge": range(len(early.streams)), "events": [len(s) for s in early.streams]})
    late = run.scores.join(events, on="edge").filter(pl.col("batch") * size >= pl.col("events"))
    per_edge: dict[int, float | None] = dict(late.group_by("edge").agg(pl.col("score").mean()).rows())
    return [per_edge.get(edge) for edge in range(len(early.streams))]


def is_clear(scores: Sequence[float | None], defaults: Sequence[float | None]) -> bool:
    """Whether the mean gain over the defaults is above its standard error over the edges.

    >>> is_clear([0.7, 0.8, 0.6], [0.6, 0.7, 0.5]), is_clear([0.7, 0.8, 0.6], [0.6, 0.9, 0.7])
    (True, False)
    """
    gains = [a - b for a, b in zip(scores, defaults, strict=True) if a is not None and b is not None]
    if not gains:
        return False
    middle = sum(gains) / len(gains)
    spread = math.sqrt(sum((g - middle) ** 2 for g in gains) / max(1, len(gains) - 1) / len(gains))
    return middle > spread


def _finalists(trials: Sequence[Trial], defaults: Values) -> Sequence[Values]:
    """The values of the best trials, the defaults aside."""
    ranked = sorted((t for t in trials if t.score is not None), key=lambda t: -(t.score or 0.0))
    return [t.values for t in ranked if t.values != defaults][:FINALISTS]


def _describe(trials: Sequence[Trial]) -> str:
    """A line about a search under way."""
    scores = [t.score for t in trials if t.score is not None]
    best = f", best {max(scores):.4f}" if scores else ""
    return f"{len(trials)} trials, {sum(t.pruned for t in trials)} pruned{best}"
