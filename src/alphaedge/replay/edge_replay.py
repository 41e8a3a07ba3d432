"""The replay to one edge: a few connections that work through its plan in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.data.stream import Stream
from alphaedge.errors import EdgeError
from alphaedge.inference.client import Predictions
from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.replay.circuit_breaker import CircuitBreaker
from alphaedge.replay.counts import EdgeCounts
from alphaedge.replay.options import ReplayOptions
from alphaedge.replay.plan import Plan, Step

MAX_LABELS_PER_REQUEST: Final = 1000  # when overdue feedback is sent together

AlterLabels = Callable[[str, int, NDArray[np.float32]], NDArray[np.float32]]


class Client(Protocol):
    """The methods of ``EdgeClient`` that a replay needs."""

    url: str

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        """See ``EdgeClient``."""

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        """See ``EdgeClient``."""


class _Feedback(NamedTuple):
    """Feedback on one group, and the time from which on it may be sent."""

    ids: list[int]
    labels: list[float]
    due: float


@final
class EdgeReplay:
    """Replays one stream to one edge. clock: seconds, of which only differences matter.

    alter_labels: see ``Replay``. values: what is sent for numbers, by id or category field (``Dataset.values``).

    Nothing is lost silently: feedback that could not be sent is kept, sent when the edge answers again, and counted as
    undelivered otherwise.
    """

    def __init__(
        self,
        edge: str,
        stream: Stream,
        plan: Plan,
        client: Client,
        options: ReplayOptions,
        counts: EdgeCounts,
        *,
        alter_labels: AlterLabels | None,
        values: Mapping[str, NDArray[np.object_]],
        clock: Callable[[], float],
    ) -> None:
        self.edge, self.client, self.plan, self.counts = edge, client, plan, counts
        self.breaker = CircuitBreaker(clock)
        self.gave_up: str | None = None
        self._options, self._alter_labels, self._clock, self._started = options, alter_labels, clock, 0.0
        self._inputs = {name: values.numpy() for name, values in stream.inputs.items()}
        self._values = values
        self._labels = stream.labels.numpy().astype(np.float32)
        self._steps = plan.steps()
        self._taking, self._finished = asyncio.Lock(), False
        self._end = float("inf")
        self._ids: dict[int, list[int]] = {}  # prediction ids of groups whose labels are not known yet
        self._early: dict[int, float] = {}  # groups whose labels are known while their predictions are on their way
        self._unsent: dict[int, _Feedback] = {}  # groups whose labels are known, until the edge has them
        self._overdue: deque[int] = deque()  # those of them for which the edge did not answer
        self._predicted, self._delivered = 0, 0  # events

    @property
    def undelivered(self) -> int:
        """The number of predictions whose labels the edge does not have."""
        return self._predicted - self._delivered

    @property
    def is_down(self) -> bool:
        """Whether the edge does not answer."""
        return self.breaker.down_since is not None

    async def run(self, started: float) -> None:
        """Work through the plan, then send the remaining feedback for as long as patience lasts.

        started: the clock's time at the start of the replay.
        """
        self._started = started
        if self._options.limit_seconds is not None:
            self._end = started + self._options.limit_seconds
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._options.connections):
                    workers.create_task(self._work())
            await self._send_rest()
        finally:
            self.counts.scores.close(self._clock() - self._started)

    async def _work(self) -> None:
        while not self._finished:
            free_since = self._clock()
            async with self._taking:
                taken = await self._next_step(free_since)
            if taken is None:
                return
            step, moment = taken
            if step.is_feedback:
                await self._send_feedback(step.group, moment)
            else:
                await self._predict(step.group, moment)

    async def _next_step(self, free_since: float) -> tuple[Step, float] | None:
        """Return the next step and the moment it is planned for, when that has come; None at the end.

        free_since: the time since which this connection is free.
        """
        step = None if self._finished else next(self._steps, None)
        now = self._clock()
        speed = self._options.speed
        moment = now if step is None or speed is None else self._started + step.time / speed
        if step is None or max(now, moment) >= self._end:
            self._finished = True
            return None
        if speed is not None:
            if moment > now:
                await asyncio.sleep(moment - now)
            self.counts.queued += free_since > moment and not step.is_feedback
        return step, moment

    async def _predict(self, group: int, moment: float) -> None:
        events, counts = self.plan.events_of(group), self.counts
        inputs = {name: values[events] for name, values in self._inputs.items()}
        inputs |= {name: values[inputs[name]] for name, values in self._values.items()}
        # A request that is planned while the edge is down waits from that moment on, or a dead edge would keep the
        # replay going forever.
        until = min((moment if self.is_down else self._clock()) + self._options.patience, self._end)
        try:
            answer = await self.breaker.call(lambda: self.client.predict(inputs), until)
        except EdgeError as error:
            counts.failures += 1
            counts.record_error(error)
            counts.scores.add(events.start, events.stop - events.start, None, self._clock() - self._started)
            self._early.pop(group, None)
            if error.temporary and self._options.speed is None:
                self._finished, self.gave_up = True, str(error)
            return
        now = self._clock()
        counts.last_answer_at = now - self._started
        counts.latency.append(now - moment)
        counts.service.append(answer.seconds)
        counts.scores.add(events.start, events.stop - events.start, answer.predictions, counts.last_answer_at)
        self._ids[group] = answer.ids.tolist()
        self._predicted += len(answer.ids)
        if group in self._early:
            await self._send_feedback(group, self._early.pop(group))
        await self._send_overdue()

    async def _send_feedback(self, group: int, due: float) -> None:
        """Send the labels of a group; later if its predictions are still on their way."""
        if group not in self._ids:
            self._early[group] = due
            return
        self._prepare_feedback(group, due)
        # This does not wait while the edge is down: requests for predictions do, and feedback can be sent at any time.
        if await self._send([group], self._clock()):
            await self._send_overdue()

    def _prepare_feedback(self, group: int, due: float) -> None:
        events = self.plan.events_of(group)
        labels = self._labels[events].copy()
        if self._alter_labels is not None:
            labels = self._alter_labels(self.edge, events.start, labels)
        self._unsent[group] = _Feedback(self._ids.pop(group), np.asarray(labels, dtype=np.float64).tolist(), due)

    async def _send_overdue(self) -> None:
        """Send overdue feedback, now that the edge answers."""
        while self._overdue and not self.is_down:
            await self._send(self._next_overdue(), self._clock())

    async def _send_rest(self) -> None:
        """Send all remaining feedback at the end."""
        speed, now = self._options.speed, self._clock()
        for group in list(self._ids):
            due = now if speed is None else self._started + float(self.plan.feedback_at[group]) / speed
            self._prepare_feedback(group, min(due, now))
            self._overdue.append(group)
        answers = True
        while self._overdue and answers:
            since = self.breaker.down_since if self.breaker.down_since is not None else self._clock()
            answers = await self._send(self._next_overdue(), since + self._options.patience)

    def _next_overdue(self) -> list[int]:
        """Take as many overdue groups as go into one request; at least one."""
        groups = [self._overdue.popleft()]
        count = len(self._unsent[groups[0]].ids)
        while self._overdue and (count := count + len(self._unsent[self._overdue[0]].ids)) <= MAX_LABELS_PER_REQUEST:
            groups.append(self._overdue.popleft())
        return groups

    async def _send(self, groups: list[int], until: float) -> bool:
        """Send the feedback on some groups in one request; return False, and keep it, if the edge does not answer."""
        parts = [self._unsent[group] for group in groups]
        ids, labels = [i for part in parts for i in part.ids], [y for part in parts for y in part.labels]
        try:
            answer = await self.breaker.call(lambda: self.client.feedback(ids, labels), until)
        except EdgeError as error:
            if error.temporary:
                self._overdue.extendleft(reversed(groups))
                return False
            if len(groups) > 1:  # one group may spoil the others
                return all([await self._send([group], until) for group in groups])
            self.counts.record_error(error)  # it will never be accepted, so it stays undelivered
        else:
            self._delivered += len(ids)
            now = self._clock()
            self.counts.record_feedback(answer, [now - part.due for part in parts], now - self._started)
        for group in groups:
            del self._unsent[group]
        return True
