"""A whole replay: all edges at once, stopped at any time, and what came of it so far."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.data.stream import Stream, Task
from alphaedge.errors import InvalidValue, check_choice
from alphaedge.metrics import mean
from alphaedge.replay.counts import LATELY, Counts, summed
from alphaedge.replay.edge_replay import Client, EdgeReplay, Taught
from alphaedge.replay.notes import notes
from alphaedge.replay.pace import Options
from alphaedge.replay.plan import Plan, start_of
from alphaedge.replay.result import Latency, ReplayResult
from alphaedge.replay.scores import METRICS, Scores

EVERY: Final = 0.2  # seconds between two reports of progress
SAMPLE: Final = 0.05  # seconds between two looks whether the generator itself is late


def truth(edge: str, first: int, labels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Labels as they are."""
    return labels


@final
@dataclass(frozen=True)
class EdgeProgress:
    """How far one edge is. score: the mean so far. owed: outcomes not yet told. lately: seconds of its last answers."""

    planned: int
    events: int
    failures: int
    owed: int
    down: bool
    score: float | None
    lately: Sequence[float]

    @property
    def latency(self) -> Latency:
        """Of the last requests; for whoever wants to see it, since it takes a moment."""
        return Latency.of(self.lately)


@final
@dataclass(frozen=True)
class Progress:
    """How far a replay is. seconds: since its start. left: seconds that it will still take, if one can say."""

    seconds: float
    left: float | None
    edges: Mapping[str, EdgeProgress]

    @property
    def score(self) -> float | None:
        """The mean over edges."""
        return mean([e.score for e in self.edges.values() if e.score is not None])


Watch = Callable[[Progress], None]


@final
class Replay:
    """A replay of some streams to the edges of the same names. Make it and run it once, inside an event loop.

    labels: what an edge is told of its events, from (edge, first event, labels); scores are always of the true labels.
    id_values: see ``Dataset``; ids of fields without them are sent as the streams have them.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream],
        clients: Mapping[str, Client],
        options: Options,
        *,
        task: Task,
        labels: Taught = truth,
        id_values: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        check_choice("task", task, METRICS)
        if not streams or set(streams) != set(clients):
            raise InvalidValue(
                "clients", sorted(clients), f"one for each of {', '.join(streams) or 'at least one edge'}"
            )
        self._options, self._task = options, task
        self._clock = asyncio.get_running_loop().time
        self._began, self._seconds = 0.0, 0.0
        self._runs, self.stopped = False, False
        self._late: list[float] = []
        start = start_of(streams.values())
        texts = {name: np.array(values, dtype=object) for name, values in (id_values or {}).items()}
        self._lanes = []
        for place, (edge, stream) in enumerate(streams.items()):
            plan = Plan.of(stream, options, start=start, rng=np.random.default_rng([options.seed, place]))
            tally = Counts(Scores(stream.labels, stream.times, task, options.batch_size), plan.events)
            self._lanes.append(
                EdgeReplay(
                    edge,
                    stream,
                    plan,
                    clients[edge],
                    options,
                    tally,
                    taught=labels,
                    id_values=texts,
                    clock=self._clock,
                )
            )

    async def run(self, *, on_progress: Watch | None = None, stop: asyncio.Event | None = None) -> None:
        """To the end, or until ``stop`` is set or this is cancelled. No task stays behind; ``outcome`` has the rest."""
        self._began, self._runs = self._clock(), True
        lanes = asyncio.create_task(self._all())
        stopping = asyncio.create_task(stop.wait()) if stop is not None else None
        ticking = asyncio.create_task(self._tick(on_progress)) if on_progress is not None else None
        tasks = [lanes, asyncio.create_task(self._sample()), *(t for t in (stopping, ticking) if t is not None)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stopped = not lanes.done()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._seconds, self._runs = self._clock() - self._began, False
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if on_progress is not None:
            on_progress(self.progress())

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(lane.run(self._began))

    async def _tick(self, on_progress: Watch) -> None:
        while True:
            on_progress(self.progress())
            await asyncio.sleep(EVERY)

    async def _sample(self) -> None:
        """How late this loop is when it wants to do something: all requests and answers wait just as long."""
        while True:
            moment = self._clock() + SAMPLE
            await asyncio.sleep(SAMPLE)
            self._late.append(max(0.0, self._clock() - moment))

    def progress(self) -> Progress:
        """How far it is."""
        seconds = self._now()
        found = {
            lane.edge: EdgeProgress(
                planned=lane.plan.events,
                events=lane.tally.scores.predicted,
                failures=lane.tally.failures,
                owed=lane.undelivered,
                down=lane.down,
                score=lane.tally.scores.mean(),
                lately=lane.tally.latency[-LATELY:],
            )
            for lane in self._lanes
        }
        return Progress(seconds, self._left(seconds, found), found)

    def outcome(self) -> ReplayResult:
        """What came of it so far."""
        seconds, options = self._now(), self._options
        edges = tuple(
            lane.tally.figures(
                lane.edge,
                lane.client.url,
                retries=lane.gate.retries,
                undelivered=lane.undelivered,
                gave_up=lane.gave_up,
            )
            for lane in self._lanes
        )
        found = ReplayResult(
            task=self._task,
            metric=METRICS[self._task],
            batch_size=options.batch_size,
            speed=options.speed,
            delay=str(options.delay),
            per_request=options.per_request,
            connections=options.connections,
            seconds=seconds,
            stopped=self.stopped,
            late=Latency.of(self._late),
            total=summed([lane.tally for lane in self._lanes], edges, seconds),
            edges=edges,
        )
        return notes(found)

    def _now(self) -> float:
        return self._clock() - self._began if self._runs else self._seconds

    def _left(self, seconds: float, edges: Mapping[str, EdgeProgress]) -> float | None:
        options = self._options
        most = options.limit_seconds - seconds if options.limit_seconds is not None else float("inf")
        if options.speed is not None:
            whole = max(lane.plan.end for lane in self._lanes) / options.speed
            return max(0.0, min(most, whole - seconds))
        done = [(e.events, e.planned - e.events) for e in edges.values() if e.planned > e.events]
        if any(events == 0 for events, _ in done):
            return None
        return max(0.0, min(most, max((seconds * rest / events for events, rest in done), default=0.0)))


async def replay(
    streams: Mapping[str, Stream],
    clients: Mapping[str, Client],
    options: Options,
    *,
    task: Task,
    on_progress: Watch | None = None,
    labels: Taught = truth,
    id_values: Mapping[str, Sequence[str]] | None = None,
    stop: asyncio.Event | None = None,
) -> ReplayResult:
    """Stream each edge's events to it, tell it later what came of them, and say what came of that.

    It ends early, with what came so far, when ``stop`` is set. To have that after a cancellation too, use ``Replay``.
    """
    whole = Replay(streams, clients, options, task=task, labels=labels, id_values=id_values)
    await whole.run(on_progress=on_progress, stop=stop)
    return whole.outcome()
