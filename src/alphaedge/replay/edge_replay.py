"""One edge's replay: a few connections that take the steps of its plan in order."""

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
from alphaedge.replay.counts import Counts
from alphaedge.replay.pace import Options
from alphaedge.replay.plan import Plan, Step

TOGETHER: Final = 1000  # outcomes that are told in one request when many are owed

Taught = Callable[[str, int, NDArray[np.float32]], NDArray[np.float32]]


class Client(Protocol):
    """What is asked of an edge's client."""

    url: str

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        """See EdgeClient."""

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        """See EdgeClient."""


class _Due(NamedTuple):
    """What came of one group of predictions, and when that was to be told."""

    ids: list[int]
    labels: list[float]
    moment: float


@final
class EdgeReplay:
    """Replays one stream to one edge. clock: in seconds, only for differences.

    id_values: the raw value of each code, by id field, which is sent instead of the code.

    Nothing is lost silently: what could not be told is kept, told when the edge answers again, and else counted.
    """

    def __init__(
        self,
        edge: str,
        stream: Stream,
        plan: Plan,
        client: Client,
        options: Options,
        tally: Counts,
        *,
        taught: Taught,
        id_values: Mapping[str, NDArray[np.object_]],
        clock: Callable[[], float],
    ) -> None:
        self.edge, self.client, self.plan, self.tally = edge, client, plan, tally
        self.gate = CircuitBreaker(clock)
        self.gave_up: str | None = None
        self._options, self._taught, self._clock, self._began = options, taught, clock, 0.0
        self._inputs = {name: values.numpy() for name, values in stream.inputs.items()}
        self._id_values = id_values
        self._labels = stream.labels.numpy().astype(np.float32)
        self._steps = plan.steps()
        self._taking, self._over = asyncio.Lock(), False
        self._end = float("inf")
        self._ids: dict[int, list[int]] = {}  # of groups that are predicted, and of whose outcomes nothing is told
        self._early: dict[int, float] = {}  # groups whose outcomes are due while their predictions are on their way
        self._untold: dict[int, _Due] = {}  # groups whose outcomes are due; they stay until the edge has them
        self._owed: deque[int] = deque()  # those of them for which the edge did not answer
        self._predicted, self._told = 0, 0  # events

    @property
    def undelivered(self) -> int:
        """Outcomes of predictions that the edge has not been told of."""
        return self._predicted - self._told

    @property
    def down(self) -> bool:
        """Whether the edge does not answer."""
        return self.gate.down_since is not None

    async def run(self, began: float) -> None:
        """To the end of the plan; then what is still owed is told, as long as patience lasts.

        began: what the clock showed at the start of the replay.
        """
        self._began = began
        if self._options.limit_seconds is not None:
            self._end = began + self._options.limit_seconds
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._options.connections):
                    workers.create_task(self._work())
            await self._settle()
        finally:
            self.tally.scores.close(self._clock() - self._began)

    async def _work(self) -> None:
        while not self._over:
            came = self._clock()
            async with self._taking:
                taken = await self._next(came)
            if taken is None:
                return
            step, moment = taken
            await (self._tell(step.group, moment) if step.tells else self._predict(step.group, moment))

    async def _next(self, came: float) -> tuple[Step, float] | None:
        """The next step and the moment that it is for; None at the end. came: since when a connection is free."""
        step = None if self._over else next(self._steps, None)
        now = self._clock()
        speed = self._options.speed
        moment = now if step is None or speed is None else self._began + step.moment / speed
        if step is None or max(now, moment) >= self._end:
            self._over = True
            return None
        if speed is not None:
            if moment > now:
                await asyncio.sleep(moment - now)
            self.tally.crowded += came > moment and not step.tells
        return step, moment

    async def _predict(self, group: int, moment: float) -> None:
        events, tally = self.plan.slice(group), self.tally
        inputs = {name: values[events] for name, values in self._inputs.items()}
        inputs |= {name: values[inputs[name]] for name, values in self._id_values.items()}
        # Those that come while the edge is down wait from their own moment on, or a dead one would never be done with.
        until = min((moment if self.down else self._clock()) + self._options.patience, self._end)
        try:
            found = await self.gate.call(lambda: self.client.predict(inputs), until)
        except EdgeError as error:
            tally.failures += 1
            tally.went_wrong(error)
            tally.scores.add(events.start, events.stop - events.start, None, self._clock() - self._began)
            self._early.pop(group, None)
            if error.temporary and self._options.speed is None:
                self._over, self.gave_up = True, str(error)
            return
        now = self._clock()
        tally.last = now - self._began
        tally.latency.append(now - moment)
        tally.service.append(found.seconds)
        tally.scores.add(events.start, events.stop - events.start, found.predictions, tally.last)
        self._ids[group] = found.ids.tolist()
        self._predicted += len(found.ids)
        if group in self._early:
            await self._tell(group, self._early.pop(group))
        await self._catch_up()

    async def _tell(self, group: int, moment: float) -> None:
        """Tell what came of a group, if it was predicted; later if its predictions are still on their way."""
        if group not in self._ids:
            self._early[group] = moment
            return
        self._fall_due(group, moment)
        # While the edge is down this does not wait: others will, and outcomes can be told at any time.
        if await self._send([group], self._clock()):
            await self._catch_up()

    def _fall_due(self, group: int, moment: float) -> None:
        events = self.plan.slice(group)
        labels = self._taught(self.edge, events.start, self._labels[events].copy())
        self._untold[group] = _Due(self._ids.pop(group), np.asarray(labels, dtype=np.float64).tolist(), moment)

    async def _catch_up(self) -> None:
        """Tell what is owed, now that the edge answers."""
        while self._owed and not self.down:
            await self._send(self._some_owed(), self._clock())

    async def _settle(self) -> None:
        """At the end: tell everything that is still to be told."""
        speed, now = self._options.speed, self._clock()
        for group in list(self._ids):
            due = now if speed is None else self._began + float(self.plan.due[group]) / speed
            self._fall_due(group, min(due, now))
            self._owed.append(group)
        answers = True
        while self._owed and answers:
            since = self.gate.down_since if self.gate.down_since is not None else self._clock()
            answers = await self._send(self._some_owed(), since + self._options.patience)

    def _some_owed(self) -> list[int]:
        """As many groups as go into one request; at least one."""
        some = [self._owed.popleft()]
        count = len(self._untold[some[0]].ids)
        while self._owed and (count := count + len(self._untold[self._owed[0]].ids)) <= TOGETHER:
            some.append(self._owed.popleft())
        return some

    async def _send(self, groups: list[int], until: float) -> bool:
        """Tell what came of some groups in one request. False: the edge does not answer, and they are owed."""
        dues = [self._untold[group] for group in groups]
        ids, labels = [i for due in dues for i in due.ids], [y for due in dues for y in due.labels]
        try:
            told = await self.gate.call(lambda: self.client.feedback(ids, labels), until)
        except EdgeError as error:
            if error.temporary:
                self._owed.extendleft(reversed(groups))
                return False
            if len(groups) > 1:  # one of them may spoil the others
                return all([await self._send([group], until) for group in groups])
            self.tally.went_wrong(error)  # it will never take this, so it stays undelivered
        else:
            self._told += len(ids)
            now = self._clock()
            self.tally.heard(told, [now - due.moment for due in dues], now - self._began)
        for group in groups:
            del self._untold[group]
        return True
