"""The search itself: an Optuna study whose trials are tasks, on whatever workers there are.

Trials are drawn by the tree-structured Parzen estimator (Bergstra et al., 2011). One whose score so far is below the
median of the others at the same point of the stream is pruned. The journal in the results folder makes a search
resumable; it is text and runs no code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from alphaedge.simulation.workers import Workers
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

    score: of a run. journal: where trials are kept. seed: of the draws.
    """

    def __init__(
        self,
        settings: Settings,
        method: str,
        knobs: Sequence[Knob],
        score: Callable[[RunResult, int], float | None],
        journal: Path,
        seed: int = 0,
    ) -> None:
        self.settings, self.method, self.knobs, self.score = settings, method, list(knobs), score
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(journal))),
            study_name="tune",
            direction="maximize",
            sampler=optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=_STARTING_TRIALS, multivariate=True, constant_liar=True
            ),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTING_TRIALS, n_warmup_steps=STEPS // 4),
            load_if_exists=True,
        )
        self._running: dict[str, optuna.Trial] = {}  # by the name of its task
        self._step: dict[str, int] = {}  # the last that was reported
        self._begin()

    def _begin(self) -> None:
        """Start with the defaults; or take up a search of the same settings."""
        about = self.settings.toml() + repr([self.method, *self.knobs])
        known = self._study.user_attrs.get("about")
        if known is None:
            self._study.set_user_attr("about", about)
            self._study.enqueue_trial({knob.key: knob.default for knob in self.knobs})
        elif known != about:
            raise InvalidValue("out", "another search", "the folder of a search with the same settings, or a new one")
        for trial in self._study.get_trials(states=(TrialState.RUNNING,)):  # whoever ran it was killed
            self._study.tell(trial.number, state=TrialState.FAIL)

    def run(
        self, workers: Workers, *, time_left: Callable[[], bool], most: int | None, watch: Callable[[], None]
    ) -> None:
        """Run trials while time is left, ``most`` at most; what still runs then is given up."""

        def tasks() -> Iterator[Task]:
            while time_left() and (most is None or len(self._study.trials) < most):
                watch()
                yield self._ask()

        def look(name: str, progress: Progress) -> bool:
            watch()
            trial = self._running.get(name.partition("/")[0])
            return trial is None or not time_left() or self._is_poor(trial, progress)

        try:
            for (result, *_), _ in workers.run(tasks(), look):
                trial = self._running.pop(result.method, None)
                if trial is not None:
                    trial.set_user_attr("seconds", result.seconds)
                    found = self.score(result, trial.params.get("batch_size", self.settings.size))
                    self._study.tell(trial, found, state=TrialState.FAIL if found is None else TrialState.COMPLETE)
                    watch()
        finally:
            for trial in self._running.values():
                self._study.tell(trial, state=TrialState.FAIL)
            self._running.clear()

    def trials(self) -> list[Trial]:
        """All finished trials, in the order in which they began."""
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        return [
            Trial(
                number=t.number,
                values=dict(t.params),
                score=t.value if t.state == TrialState.COMPLETE else None,
                pruned=t.state == TrialState.PRUNED,
                seconds=t.user_attrs.get("seconds", 0.0),
            )
            for t in self._study.get_trials(states=states)
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
        self._running[name], self._step[name] = trial, 0
        return Task(settings, name, settings.method.apply(self.method), (0,), None, None)

    def _is_poor(self, trial: optuna.Trial, progress: Progress) -> bool:
        name, step = f"trial-{trial.number}", progress.batches * STEPS // max(1, progress.total)
        if progress.score is None or not self._step[name] < step < STEPS:
            return False
        self._step[name] = step
        trial.report(progress.score, step)
        if not trial.should_prune():
            return False
        self._study.tell(trial, state=TrialState.PRUNED)
        del self._running[name]
        return True


def _suggest(trial: optuna.Trial, knob: Knob) -> float:
    if knob.choices:
        chosen: int = trial.suggest_categorical(knob.key, knob.choices)
        return chosen
    if knob.whole:
        return trial.suggest_int(knob.key, int(knob.low), int(knob.high), log=True)
    return trial.suggest_float(knob.key, knob.low, knob.high, log=True)
