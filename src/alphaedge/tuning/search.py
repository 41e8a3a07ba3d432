"""The search itself: an Optuna study whose trials are tasks, on whatever workers there are.

Trials are drawn by the tree-structured Parzen estimator (Bergstra et al., 2011). One whose score so far is below the
median of the others at the same point of the stream is pruned. The journal in the results folder makes a search
resumable. It may come from anywhere, so only numbers count in it, and only for the settings that the search varies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, final

import msgspec
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from alphaedge.errors import InvalidValue
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.task import Task
from alphaedge.simulation.workers.protocol import Workers
from alphaedge.tuning.space import Knob, changed

STEPS: Final = 20  # points of the stream at which a trial may be pruned
_STARTING_TRIALS: Final = 10  # drawn at random, and never pruned by each other


@final
class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A finished trial: its values by their keys, and its score; a pruned one has none."""

    number: int
    values: dict[str, Any]
    score: float | None
    pruned: bool
    seconds: float


@final
class Search:
    """Looks for the values of ``knobs`` that give the best score on the data that ``settings`` name.

    score: of a run, given its batch size; None if it has none. journal: where trials are kept.
    settling: points of the stream, of ``STEPS``, before which nothing is pruned. seed: of the draws.
    """

    def __init__(
        self,
        settings: Settings,
        method: str,
        knobs: Sequence[Knob],
        score: Callable[[RunResult, int], float | None],
        journal: Path,
        *,
        settling: int,
        seed: int = 0,
    ) -> None:
        self.settings, self.method, self.knobs, self.score = settings, method, list(knobs), score
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(journal))),
            study_name="tune",
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTING_TRIALS, n_warmup_steps=settling),
            load_if_exists=True,
        )
        # A search that goes on draws other values than those that it began with.
        self._study.sampler = optuna.samplers.TPESampler(
            seed=seed + len(self._all()), n_startup_trials=_STARTING_TRIALS, multivariate=True, constant_liar=True
        )
        self._running: dict[str, _Running] = {}  # by the name of its task
        self._begin()

    def _begin(self) -> None:
        """Start with the defaults; or take up a search of the same settings."""
        about = "\n".join([version("alphaedge"), self.settings.toml(), repr([self.method, *self.knobs])])
        known = self._study.user_attrs.get("about")
        if known is None:
            self._study.set_user_attr("about", about)
        elif known != about:
            raise InvalidValue("out", "another search", "the folder of a search with the same settings, or a new one")
        for trial in self._all(TrialState.RUNNING):  # whoever ran it was killed
            self._study.tell(trial.number, state=TrialState.FAIL)
        defaults = {knob.key: knob.default for knob in self.knobs}
        waiting = [t.system_attrs.get("fixed_params") for t in self._all(TrialState.WAITING)]
        if defaults not in (*waiting, *(t.values for t in self.trials())):
            self._study.enqueue_trial(defaults)

    def _all(self, *states: TrialState) -> list[optuna.trial.FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=states or None)

    @property
    def seconds(self) -> float:
        """Time that was spent on the search before."""
        found = self._study.user_attrs.get("seconds", 0.0)
        return found if isinstance(found, float) else 0.0

    def run(
        self, workers: Workers, *, time_left: Callable[[], bool], most: int | None, watch: Callable[[], None]
    ) -> None:
        """Run trials while time is left, ``most`` at most; what still runs then is given up."""

        def tasks() -> Iterator[Task]:
            while time_left() and (most is None or len(self.trials()) + len(self._running) < most):
                watch()
                yield self._ask()

        def look(name: str, progress: Progress) -> bool:
            watch()
            running = self._running.get(name.partition("/")[0])
            return running is None or not time_left() or self._is_poor(name.partition("/")[0], running, progress)

        try:
            for (result, *_), _ in workers.run(tasks(), look):
                running = self._running.pop(result.method, None)
                if running is not None:
                    found = self.score(result, running.size)
                    state = TrialState.FAIL if found is None else TrialState.COMPLETE
                    self._study.tell(running.trial, found, state=state)
                    watch()
        finally:
            for running in self._running.values():
                self._study.tell(running.trial, state=TrialState.FAIL)
            self._running.clear()

    def note_seconds(self, seconds: float) -> None:
        """Keep the time that was spent on the search so far."""
        self._study.set_user_attr("seconds", seconds)

    def trials(self) -> list[Trial]:
        """All finished trials, in the order in which they began."""
        return [
            Trial(
                number=t.number,
                values=dict(t.params),
                score=t.value if t.state == TrialState.COMPLETE else None,
                pruned=t.state == TrialState.PRUNED,
                seconds=t.duration.total_seconds() if t.duration else 0.0,
            )
            for t in self._all(TrialState.COMPLETE, TrialState.PRUNED)
            if t.params.keys() == {knob.key for knob in self.knobs}
            and all(knob.allows(t.params[knob.key]) for knob in self.knobs)
        ]

    def importances(self) -> Mapping[str, float]:
        """How much each setting mattered, of 1 in total (PED-ANOVA, Watanabe et al., 2023); empty if unknown."""
        scores = {trial.score for trial in self.trials() if trial.score is not None}
        if len(scores) < 2 or len(self.knobs) < 2:
            return {}
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return optuna.importance.get_param_importances(self._study, evaluator=evaluator)

    def _ask(self) -> Task:
        trial = self._study.ask()
        settings = changed(self.settings, {knob.key: _suggest(trial, knob) for knob in self.knobs})
        name = f"trial-{trial.number}"
        self._running[name] = _Running(trial, settings.size)
        window = min([self.settings.size, *(size for knob in self.knobs for size in knob.choices)])
        return Task(settings, name, settings.method.apply(self.method), (0,), None, None, window=window)

    def _is_poor(self, name: str, running: "_Running", progress: Progress) -> bool:
        step = progress.batches * STEPS // max(1, progress.total)
        if progress.score is None or not running.step < step < STEPS:
            return False
        running.step = step
        running.trial.report(progress.score, step)
        if not running.trial.should_prune():
            return False
        self._study.tell(running.trial, state=TrialState.PRUNED)
        del self._running[name]
        return True


@dataclass
class _Running:
    """A trial under way: its batch size, and the last point of the stream at which its score was looked at."""

    trial: optuna.Trial
    size: int
    step: int = 0


def _suggest(trial: optuna.Trial, knob: Knob) -> float:
    if knob.choices:
        chosen: int = trial.suggest_categorical(knob.key, knob.choices)
        return chosen
    if knob.whole:
        return trial.suggest_int(knob.key, int(knob.low), int(knob.high), log=True)
    return trial.suggest_float(knob.key, knob.low, knob.high, log=True)
