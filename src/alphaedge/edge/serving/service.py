"""Predictions and feedback of one edge, without HTTP: the part that the server and ``alphaedge.Edge`` share.

It never waits for the learner: it predicts from the parameters that the learner has handed over last. A prediction or a
label is in the journal, on disk, before its caller gets an answer.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import MAX_MAGNITUDE, Array, Features
from alphaedge.edge.log import warn
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.edge.serving.group_commit import GroupCommit, Outputs
from alphaedge.edge.serving.metrics import Metrics
from alphaedge.edge.serving.predictor import Predictor
from alphaedge.edge.store.journal import CLEAN_UP_ROWS, Journal
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.lock import Lock
from alphaedge.edge.store.parameters import ParameterReader
from alphaedge.errors import InvalidValue, JournalError, ParametersError, RequestTooLarge
from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.steps import run_in_slices

T = TypeVar("T")
MAX_CLEANUP_INTERVAL_SECONDS: Final = 10.0
CLEANUP_PAUSE_SECONDS: Final = 0.05  # between two steps of a cleanup


@final
class PredictionService:
    """One edge over its journal and its parameters. folder: of its configuration. Close it when done."""

    def __init__(self, config: EdgeConfig, folder: Path, clock: Callable[[Journal], Callable[[], float]]) -> None:
        self.config, self.data = config, folder / config.data
        secret = (folder / config.secret).read_bytes().strip() if config.secret else b""
        self._features = Features(config.model.fields, secret)
        self._model = initial_model(config)
        self._schema = model_schema(config, self._model)
        self._predictor: Predictor | None = None
        self._write_failed = False
        self.large_turn = asyncio.Lock()  # of requests that are read in slices: one at a time
        with contextlib.ExitStack() as opened:  # closed again if the rest fails
            opened.callback(Lock(self.data / "server.lock").close)
            self.journal = Journal(self.data / "journal.db", layout=self._features.layout)
            opened.callback(self.journal.close)
            self.clock = clock(self.journal)
            self._commits = GroupCommit(self.journal, self.clock, self._outputs, self._features.to_bytes)
            self._opened = opened.pop_all()
        self.metrics = Metrics(self.data / "status.json", lambda: self._commits.pending, time.time)

    async def predict(self, inputs: Mapping[str, Array]) -> tuple[list[int], NDArray[np.float32]]:
        """Predict examples, given field by field; return prediction ids and outputs [B].

        If it raises, what was predicted of the examples is withdrawn.
        """
        self._get_predictor()  # without parameters, refuse before the inputs are looked at
        examples = await run_in_slices(self._features.encode_in_steps(inputs), self.large_turn)
        if len(examples) <= self._commits.chunk.examples:
            return await self._predict_chunk(examples)
        ids: list[int] = []
        outputs = np.empty(len(examples), np.float32)
        with self.answering(ids):
            while len(ids) < len(examples):
                start, end = len(ids), len(ids) + self._commits.chunk.examples
                some, outputs[start:end] = await self._predict_chunk(examples[start:end])
                ids += some
        return ids, outputs

    @contextlib.contextmanager
    def answering(self, ids: Sequence[int]) -> Iterator[None]:
        """Withdraw predictions if the block raises: nobody receives them, so that no label says nothing about them."""
        try:
            yield
        except BaseException:
            self._commits.unseen += ids
            raise

    async def _predict_chunk(self, examples: Array) -> tuple[list[int], NDArray[np.float32]]:
        ids, outputs = await self._write(self._commits.predict(examples))
        self.metrics.count_predictions(len(ids))
        return ids, outputs

    def check_shapes(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Check the names and shapes of inputs before their values are read."""
        count, most = self._features.check_shapes(shapes), self.config.serve.max_body_bytes
        if count * self._features.example_bytes > most:
            found = f"{count} examples of {self._features.example_bytes} bytes"
            raise RequestTooLarge("inputs", found, f"at most {most} bytes")

    def _outputs(self, examples: Array) -> tuple[Outputs, Outputs | None]:
        made = self._get_predictor().predict(self._features.to_tensors(examples, self._model.fields))
        outputs = made.outputs.numpy().astype(np.float32)
        if not np.isfinite(outputs).all():
            raise ParametersError(f"{self.data}: the model's prediction of this is not finite")
        return outputs, None if made.alone is None else made.alone.numpy().astype(np.float32)

    @property
    def allowed_labels(self) -> str:
        """Which labels are taken, in words."""
        if self.config.model.task != "classify":
            return f"a number of at most {MAX_MAGNITUDE:g} in size"
        classes = self.config.model.classes
        return f"0 for {classes[0]} or 1 for {classes[1]}" if classes and classes != ("0", "1") else "0 or 1"

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        """Record the labels of earlier predictions; return how many were accepted."""
        if len(ids) != len(labels) or not ids:
            raise InvalidValue("feedback", f"{len(ids)} ids, {len(labels)} labels", "one label for each id")
        wrong: list[Any] = [i for i in ids if not 0 < i < 2**63]
        if wrong:
            raise InvalidValue("feedback.ids", wrong[0], "ids of predictions")
        classify = self.config.model.task == "classify"
        wrong = [y for y in labels if not (y in (0.0, 1.0) if classify else abs(y) <= MAX_MAGNITUDE)]
        if wrong:
            raise InvalidValue("feedback.labels", wrong[0], self.allowed_labels)
        results: Counter[str] = Counter()
        start = 0
        while start < len(ids):
            end = start + self._commits.chunk.examples
            results += await self._record_feedback(list(zip(ids[start:end], labels[start:end], strict=True)))
            start = end
        return _feedback_counts(results)

    async def _record_feedback(self, labels: Sequence[tuple[int, float]]) -> Counter[str]:
        """Record a chunk of labels; return how many were accepted, and how many were not for each reason."""
        results = await self._write(self._commits.record_feedback(labels))
        lags = [result.lag for result in results if result.accepted]
        found = Counter(result.reason or "accepted" for result in results)
        self.metrics.count_feedback(_feedback_counts(found), lags)
        return found

    async def check_ready(self) -> None:
        """Raise an error that says why, unless a prediction could be made and written now."""
        self._get_predictor().check()
        if self._write_failed:
            await self._write(self._commits.run(Journal.check_writable))

    async def clean_up_forever(self) -> None:
        """Expire predictions whose label does not come, and drop feedback that was learned long ago."""
        while True:
            await asyncio.sleep(min(MAX_CLEANUP_INTERVAL_SECONDS, self.config.feedback.window_seconds / 2))
            try:
                while await self._clean_up_some():
                    await asyncio.sleep(CLEANUP_PAUSE_SECONDS)
            except JournalError:
                continue  # the disk may be full: readiness reports it, and there may be room the next time
            except (OSError, MemoryError) as error:  # no descriptor or no memory is left now; there may be later
                warn("clean_up_failed", reason=error)

    async def _clean_up_some(self) -> bool:
        """One small step, since predictions wait for it. Returns whether there may be more to do."""
        if unseen := self._commits.unseen[:CLEAN_UP_ROWS]:
            withdrawn = await self._write(self._commits.run(lambda j: j.withdraw(unseen)))
            self._commits.pending -= withdrawn
            del self._commits.unseen[: len(unseen)]
            return True  # nothing expires before all of them are withdrawn
        feedback, now = self.config.feedback, self.clock()
        before, negative = now - feedback.window_seconds, feedback.unanswered == "negative"
        done = await self._write(
            self._commits.run(
                lambda j: j.clean_up(before, read_learned_mark(self.data).previous, negative=negative, now=now)
            )
        )
        self._commits.pending -= done.expired
        return done.more

    def close(self) -> None:
        """Finish the running commit and close the files."""
        self._commits.close()
        with contextlib.suppress(JournalError):  # the disk may be full
            self.journal.withdraw(self._commits.unseen)
        self._opened.close()

    async def _write(self, write: Awaitable[T]) -> T:
        """Wait for a write to the journal, and remember whether it failed."""
        try:
            result = await write
        except JournalError:
            self._write_failed = True
            raise
        self._write_failed = False
        return result

    def _get_predictor(self) -> Predictor:
        """Return the predictor; raises ``ParametersError`` until the learner has handed parameters over."""
        if self._predictor is None:
            sample = self._features.to_tensors(self._features.sample(), self._model.fields)
            self._predictor = Predictor(self._model, ParameterReader(self.data / "parameters", self._schema), sample)
        return self._predictor


def _feedback_counts(results: Counter[str]) -> FeedbackCounts:
    return FeedbackCounts(results["accepted"], results["known"], results["expired"], results["unknown"])
