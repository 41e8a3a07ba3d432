"""Group commit: predictions and feedback of many callers, predicted together and written to the journal together.

A commit takes as long for one prediction as for a hundred, and a model takes hardly longer for thirty examples than for
one. So everything that arrives while the last commit runs is predicted in one call and written by the next commit. No
caller gets an answer before it is on disk.

A commit has at most about one chunk of examples and labels, since everybody else waits for it. When more are waiting,
it takes the oldest request and then the small ones.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.edge.inputs.features import Array
from alphaedge.edge.serving.chunk_size import ChunkSize
from alphaedge.edge.store.journal import FeedbackResult, Journal

T = TypeVar("T")
Outputs = NDArray[np.float32]
YIELDS_BEFORE_COMMIT: Final = 3  # turns of the event loop, in which callers that are already there can join


@final
@dataclass
class _Operation:
    """A caller's examples or labels, waiting for the next commit."""

    examples: Array | None
    labels: Sequence[tuple[int, float]]
    result: asyncio.Future[Any]

    @property
    def size(self) -> int:
        return len(self.labels) if self.examples is None else len(self.examples)

    def finish(self, result: Any) -> None:
        """Give the caller its result, if it still waits."""
        if not self.result.done():
            self.result.set_result(result)

    def fail(self, error: Exception) -> None:
        """Raise an error in the caller, if it still waits."""
        if not self.result.done():
            self.result.set_exception(error)


@final
class _Predicted(NamedTuple):
    """Callers whose examples were predicted in one call, their packed examples, and the outputs for all of them.

    alone: those of the home model alone.
    """

    operations: Sequence[_Operation]
    features: Sequence[bytes]
    outputs: Outputs
    alone: Sequence[float | None]


@final
class GroupCommit:
    """The one writer of a journal.

    clock: in seconds. predict: outputs of examples, and those of the home model alone if there is one. to_bytes:
    examples, one by one. pending: predictions in the journal that have no label. unseen: those among them that nobody
    receives, until a clean-up withdraws them.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], float],
        predict: Callable[[Array], tuple[Outputs, Outputs | None]],
        to_bytes: Callable[[Array], list[bytes]],
    ) -> None:
        self._journal, self._clock, self._predict, self._to_bytes = journal, clock, predict, to_bytes
        self.pending, self.unseen = journal.pending(), list[int]()
        self.chunk = ChunkSize()  # callers with more submit it in chunks
        self._waiting: list[_Operation] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._task: asyncio.Task[None] | None = None

    async def predict(self, examples: Array) -> tuple[list[int], Outputs]:
        """Predict examples and record them; return ids and outputs."""
        result = self._submit(examples, ())
        try:
            ids, outputs = await asyncio.shield(result)
        except asyncio.CancelledError:  # the caller does not wait for what may be on its way to the disk
            result.add_done_callback(self._note_unseen)
            raise
        return ids, outputs

    def _note_unseen(self, result: asyncio.Future[Any]) -> None:
        if not result.cancelled() and result.exception() is None:
            self.unseen += result.result()[0]

    async def record_feedback(self, labels: Sequence[tuple[int, float]]) -> list[FeedbackResult]:
        """Record labels by prediction id; return whether each was accepted."""
        return list(await self._submit(None, labels))

    async def run(self, work: Callable[[Journal], T]) -> T:
        """Do other work on the journal, between two commits."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._journal)

    def _submit(self, examples: Array | None, labels: Sequence[tuple[int, float]]) -> asyncio.Future[Any]:
        operation = _Operation(examples, labels, asyncio.get_running_loop().create_future())
        self._waiting.append(operation)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit_all())
        return operation.result

    async def _commit_all(self) -> None:
        while self._waiting:
            for _ in range(YIELDS_BEFORE_COMMIT):
                await asyncio.sleep(0)
            operations = self._take()
            try:
                await self._commit(operations)
            except Exception as error:  # any error is raised in the callers
                for operation in operations:
                    operation.fail(error)

    def _take(self) -> list[_Operation]:
        """Take what goes into the next commit, in the order of arrival."""
        waiting, room = self._waiting, self.chunk.examples
        if sum(operation.size for operation in waiting) <= room:
            self._waiting = []
            return waiting
        taken = {0}
        room -= waiting[0].size
        for place in sorted(range(1, len(waiting)), key=lambda place: waiting[place].size):
            room -= waiting[place].size
            if room < 0:
                break
            taken.add(place)
        self._waiting = [operation for place, operation in enumerate(waiting) if place not in taken]
        return [operation for place, operation in enumerate(waiting) if place in taken]

    async def _commit(self, operations: Sequence[_Operation]) -> None:
        parts = self._predict_together([operation for operation in operations if operation.examples is not None])
        labels = [label for operation in operations for label in operation.labels]
        features = [packed for part in parts for packed in part.features]
        outputs = [output for part in parts for output in part.outputs.tolist()]
        alone = [output for part in parts for output in part.alone]
        write = partial(self._journal.write, features, outputs, labels, self._clock(), alone=alone)
        ids, recorded = await asyncio.get_running_loop().run_in_executor(self._thread, write)
        self.pending += len(ids) - sum(result.accepted for result in recorded)
        next_id = next_label = 0
        for part in parts:
            first = next_id
            for operation in part.operations:
                end = next_id + operation.size
                operation.finish((ids[next_id:end], part.outputs[next_id - first : end - first]))
                next_id = end
        for operation in operations:
            if operation.examples is None:
                end = next_label + operation.size
                operation.finish(recorded[next_label:end])
                next_label = end

    def _predict_together(self, operations: Sequence[_Operation]) -> list[_Predicted]:
        """Predict the examples of callers in one call, or after an error each half in one.

        So an error reaches only the callers whose own examples it is about.
        """
        given = [operation.examples for operation in operations if operation.examples is not None]
        if not given:
            return []
        try:
            # Joined as bytes: ``concatenate`` compares the types of all fields of each array.
            examples = given[0] if len(given) == 1 else np.frombuffer(b"".join([g.data for g in given]), given[0].dtype)
            began = time.perf_counter()
            features, (outputs, alone) = self._to_bytes(examples), self._predict(examples)
            self.chunk.note(len(examples), time.perf_counter() - began)
        except Exception as error:  # any error is raised in the caller
            if len(operations) == 1:
                operations[0].fail(error)
                return []
            half = len(operations) // 2
            return self._predict_together(operations[:half]) + self._predict_together(operations[half:])
        beside = [None] * len(examples) if alone is None else alone.tolist()
        return [_Predicted(operations, features, outputs, beside)]

    def close(self) -> None:
        """Finish the running commit."""
        self._thread.shutdown(wait=True)
