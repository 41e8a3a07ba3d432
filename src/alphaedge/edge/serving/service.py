"""Predictions and feedback of one edge, without HTTP: what the server and ``alphaedge.Edge`` are both made of.

It never waits for learning: predictions come from the parameters that the learner has handed over last, and what is
predicted or told is in the journal, on disk, before anybody hears of it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import LARGEST, Array, Features
from alphaedge.edge.model import schema, seeded
from alphaedge.edge.serving.group_commit import GroupCommit
from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.serving.predictor import Predictor
from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.lock import Lock
from alphaedge.edge.store.parameters import ParameterReader
from alphaedge.errors import InvalidValue, JournalError, ParametersError

TIDY_EVERY: Final = 10.0  # seconds between two looks for predictions that have expired
PAUSE: Final = 0.05  # seconds between two steps of that
REASONS: Final = ("known", "expired", "unknown")  # why an outcome is not accepted


@final
class Service:
    """One edge over its journal and its parameters. folder: of its configuration. Close it when done."""

    def __init__(self, config: EdgeConfig, folder: Path, clock: Callable[[Journal], Callable[[], float]]) -> None:
        self.config, self.data = config, folder / config.data
        self._lock = Lock(self.data / "server.lock")
        secret = (folder / config.secret).read_bytes().strip() if config.secret else b""
        self._features = Features(config.model.fields, secret)
        self.journal = Journal(self.data / "journal.db", layout=self._features.layout)
        self.clock = clock(self.journal)
        self._scribe = GroupCommit(self.journal, self.clock, self._outputs, self._features.pack)
        self._model = seeded(config)
        self._schema = schema(config, self._model)
        self._predictor: Predictor | None = None
        self._trouble = ""
        self._pending = self.journal.pending()
        self.metrics = Metrics(self.data / "status.json", lambda: self._pending, time.time)

    async def predict(self, inputs: Mapping[str, Array]) -> tuple[list[int], NDArray[np.float32]]:
        """Predictions [B] of examples, given field by field, and their ids, which feedback will name."""
        self._predicting()
        ids, outputs = await self._written(self._scribe.predicted(self._features.take(inputs)))
        self._pending += len(ids)
        self.metrics.predicted(len(ids))
        return ids, outputs

    def _outputs(self, examples: Array) -> NDArray[np.float32]:
        found, _ = self._predicting().predict(self._features.tensors(examples, self._model.fields))
        outputs = found.numpy().astype(np.float32)
        if not np.isfinite(outputs).all():
            raise ParametersError(f"{self.data}: the model has no finite prediction for this")
        return outputs

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> dict[str, int]:
        """Take what came of predictions; how many were accepted, known already, expired or unknown."""
        if len(ids) != len(labels) or not ids:
            raise InvalidValue("feedback", f"{len(ids)} ids, {len(labels)} labels", "one label for each id")
        wrong: list[Any] = [i for i in ids if not 0 < i < 2**63]
        if wrong:
            raise InvalidValue("feedback.ids", wrong[0], "ids of predictions")
        classify = self.config.model.task == "classify"
        wrong = [y for y in labels if not (y in (0.0, 1.0) if classify else abs(y) <= LARGEST)]
        if wrong:
            allowed = "0 or 1" if classify else f"a number of at most {LARGEST:g} in size"
            raise InvalidValue("feedback.labels", wrong[0], allowed)
        found = await self._written(self._scribe.told(list(zip(ids, labels, strict=True))))
        waited = [o.waited for o in found if o.accepted]
        counts = {"accepted": len(waited)} | {reason: sum(o.reason == reason for o in found) for reason in REASONS}
        self._pending -= len(waited)
        self.metrics.told(counts, waited)
        return counts

    async def ready(self) -> None:
        """Nothing if a prediction could be made and written down now; else an error that says why not."""
        self._predicting()
        if self._trouble:
            await self._written(self._scribe.tidy(lambda j: j.probe()))

    async def tidy(self) -> None:
        """For ever, now and then: end the wait for outcomes that do not come, and drop what was learned long ago."""
        while True:
            await asyncio.sleep(min(TIDY_EVERY, self.config.feedback.window_seconds / 2))
            try:
                while await self._tidy_some():
                    await asyncio.sleep(PAUSE)
            except JournalError:
                continue  # the disk is full, say: readiness tells, and the next look may find room

    async def _tidy_some(self) -> bool:
        """A little of it, since predictions wait meanwhile; whether there may be more."""
        feedback, now = self.config.feedback, self.clock()
        before, negative = now - feedback.window_seconds, feedback.unanswered == "negative"
        ended = await self._written(self._scribe.tidy(lambda j: j.expire(before, negative=negative, now=now)))
        self._pending -= ended
        gone = await self._written(self._scribe.tidy(lambda j: j.forget(read_learned_mark(self.data).previous, before)))
        return bool(ended or gone)

    def close(self) -> None:
        """Finish what was begun."""
        self._scribe.close()
        self.journal.close()
        self._lock.close()

    async def _written(self, writing: Any) -> Any:
        try:
            found = await writing
        except JournalError as error:
            self._trouble = str(error)
            raise
        self._trouble = ""
        return found

    def _predicting(self) -> Predictor:
        """What predicts; an error until the learner has handed something over."""
        if self._predictor is None:
            example = self._features.tensors(self._features.example(), self._model.fields)
            self._predictor = Predictor(self._model, ParameterReader(self.data / "parameters", self._schema), example)
        return self._predictor
