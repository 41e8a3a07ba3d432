"""Find settings for a data set: search on its first part, confirm there, and report on the rest.

1. Trials with one seed on the first part of the events, in order of time. A trial's score is prequential (every batch
   is predicted before it is learned from) and leaves out the first third of the part, in which every model is new.
2. The best of them and the defaults with further seeds, on the same part. The winner is taken if its gain is larger
   than the gain's standard error over the edges; otherwise the defaults stay.
3. Winner and defaults on the whole stream, scored on the events after the part, which no choice was made on.

What is compared is scored on windows of equally many events, whatever its batch size: AUC over more events is another
quantity.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec

from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue, check_number
from alphaedge.experiments.scores import Score, difference, score_of_runs
from alphaedge.scoring import mean
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.task import Task
from alphaedge.simulation.workers.protocol import Workers
from alphaedge.tuning.late_scores import is_clear, late_score, late_scores
from alphaedge.tuning.search import STEPS, Search, Trial
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
    """What was found. ``values``: of all settings that were varied; ``defaults``: the same before.

    on_part: score of the values and of the defaults on the part that was searched on, with seeds of their own.
    on_rest: the same on the events after it. None: no run had a score.
    bytes, seconds: what an edge pulled and computed over the whole stream, as a multiple of the same by the defaults;
        None where the defaults pull nothing.
    """

    settings: Settings
    method: str
    part: float
    values: dict[str, Any]
    defaults: dict[str, Any]
    trials: list[Trial]
    importances: dict[str, float]
    on_part: tuple[Score | None, Score | None]
    on_rest: tuple[Score | None, Score | None]
    bytes: float | None
    seconds: float

    @property
    def changes(self) -> dict[str, Any]:
        """The values that differ from the defaults."""
        return {key: value for key, value in self.values.items() if value != self.defaults[key]}

    @property
    def gain(self) -> Score | None:
        """By how much the values beat the defaults on the rest, seed by seed."""
        tuned, defaults = self.on_rest
        return difference(tuned, defaults) if tuned and defaults else None


@final
class Tuning:
    """A search for settings, to be run on some workers.

    settings: all that is not varied. part: share of the events to search on. vary: keys of settings; none is all.
    """

    def __init__(self, settings: Settings, workers: Workers, *, part: float, vary: Sequence[str] = ()) -> None:
        check_number("part", part, above=0, below=1)
        if len(settings.methods) != 1:
            raise InvalidValue("methods", list(settings.methods), "one method to tune")
        self.settings, self.workers, self.share = settings.resolved(), workers, part
        self.method = self.settings.methods[0]
        self.on_part = changed(self.settings, {}, first=part * (self.settings.first or 1.0))
        events = [len(s) for s in workers.cache.data(self.settings, 0).streams]
        early = self._part(0)
        self.knobs = knobs(self.on_part, self.method, early, vary)
        self.defaults = {knob.key: knob.default for knob in self.knobs}
        largest = max([self.settings.size, *(size for knob in self.knobs for size in knob.choices)])
        left = max(all_ - len(s) for all_, s in zip(events, early.streams, strict=True))
        if left < 2 * largest:
            allowed = f"a part after which an edge has two batches of {largest} events; there are {left}"
            raise InvalidValue("part", part, allowed)

    def run(
        self, journal: Path, *, budget: float, trials: int | None, clock: Callable[[], float], report: Report
    ) -> Tuned:
        """Search for ``budget`` seconds of ``clock``, or so many trials; then confirm and report."""
        early = self._settling(0)
        search = Search(
            self.on_part,
            self.method,
            self.knobs,
            lambda run, size: late_score(run, early, size),
            journal,
            settling=round(STEPS * SETTLING) + 1,
        )
        began = clock() - search.seconds

        def tell() -> None:
            finished = search.trials()
            share = max((clock() - began) / budget, len(finished) / trials if trials else 0.0)
            report("search", min(1.0, share), _describe(finished))

        try:
            search.run(self.workers, time_left=lambda: clock() - began < budget, most=trials, watch=tell)
        finally:
            search.note_seconds(clock() - began)
        found = search.trials()
        wanted = [self.defaults, *_best(found, self.defaults)]
        default, *others = self._run(wanted, self.on_part, CONFIRMING_SEEDS, self._settling, partial(report, "confirm"))
        winner = _winner(default, others)
        compared = [self.defaults] if winner is default else [self.defaults, winner.values]
        rest = self._run(compared, self.settings, range(RUNS), self._part, partial(report, "report"))
        return Tuned(
            settings=changed(self.settings, winner.values),
            method=self.method,
            part=self.share,
            values=dict(winner.values),
            defaults=self.defaults,
            trials=found,
            importances=dict(search.importances()),
            on_part=(winner.score, default.score),
            on_rest=(rest[-1].score, rest[0].score),
            bytes=rest[-1].bytes / rest[0].bytes if rest[0].bytes else None,
            seconds=rest[-1].seconds / rest[0].seconds,
        )

    def _part(self, seed: int) -> Dataset:
        """The part that is searched on; the synthetic store has another one for each seed."""
        return self.workers.cache.data(self.on_part, seed)

    def _settling(self, seed: int) -> Dataset:
        return self._part(seed).first(SETTLING)

    def _run(
        self,
        wanted: Sequence[Values],
        base: Settings,
        seeds: Sequence[int],
        early: Callable[[int], Dataset],
        report: Reporting,
    ) -> list["_Finalist"]:
        """Run values with several seeds, and score them on the events after the early ones of each seed."""
        settings = [changed(base, values) for values in wanted]
        window = min(s.size for s in settings)  # the others are multiples of it
        tasks = [
            Task(s, f"finalist-{n}", s.method.apply(self.method), tuple(seeds), None, None, window=window)
            for n, s in enumerate(settings)
        ]
        done = dict.fromkeys(range(len(tasks)), 0.0)
        found: dict[int, _Finalist] = {}

        def watch(name: str, progress: Progress) -> None:
            done[_number(name.partition("/")[0])] = progress.batches / max(1, progress.total)
            report(sum(done.values()) / len(tasks), f"{len(tasks)} finalists, {len(seeds)} seeds each")

        for results, _ in self.workers.run(tasks, watch):
            number = _number(results[0].method)
            size, before = settings[number].size, [early(run.seed) for run in results]
            runs = [late_score(run, first, size) for run, first in zip(results, before, strict=True)]
            scores = [late_scores(run, first, size) for run, first in zip(results, before, strict=True)]
            found[number] = _Finalist(
                wanted[number],
                None if None in runs else score_of_runs(runs),
                [mean(edge) for edge in zip(*scores, strict=True)],
                sum(run.bytes[2] for run in results),
                sum(run.seconds for run in results),
            )
        return [found[number] for number in range(len(tasks))]


class _Finalist(NamedTuple):
    """Values that were run with several seeds: the score, the mean score of each edge, and the cost of all runs."""

    values: Values
    score: Score | None  # None: a run had none
    per_edge: list[float | None]
    bytes: int
    seconds: float


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _winner(default: _Finalist, others: Sequence[_Finalist]) -> _Finalist:
    """The best of the others if it is clearly better than the defaults; these otherwise."""
    scored = [finalist for finalist in others if finalist.score is not None]
    best = max(scored, key=lambda finalist: finalist.score.mean if finalist.score else 0.0, default=default)
    return best if default.score is None or is_clear(best.per_edge, default.per_edge) else default


def _best(trials: Sequence[Trial], defaults: Values) -> list[Values]:
    """The values of the best trials, each once, the defaults aside."""
    ranked = sorted((t for t in trials if t.score is not None), key=lambda t: -(t.score or 0.0))
    distinct: dict[tuple[Any, ...], Values] = {}
    for trial in ranked:
        distinct.setdefault(tuple(sorted(trial.values.items())), trial.values)
    return [values for values in distinct.values() if values != defaults][:FINALISTS]


def _describe(trials: Sequence[Trial]) -> str:
    """A line about a search under way."""
    scores = [t.score for t in trials if t.score is not None]
    best = f", best {max(scores):.4f}" if scores else ""
    return f"{len(trials)} trials, {sum(t.pruned for t in trials)} pruned{best}"
