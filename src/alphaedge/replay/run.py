"""A whole replay, to all edges at once. It can be stopped at any time, and has a result at any time."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from alphaedge.data.stream import METRICS, Stream, Task
from alphaedge.errors import InvalidValue, check_choice
from alphaedge.replay.counts import RECENT_REQUESTS, EdgeCounts, sum_up
from alphaedge.replay.edge_replay import AlterLabels, Client, EdgeReplay
from alphaedge.replay.options import ReplayOptions
from alphaedge.replay.plan import Plan, first_event_time
from alphaedge.replay.result import Latency, ReplayResult, with_notes
from alphaedge.replay.scores import StreamScores
from alphaedge.scoring import mean

PROGRESS_INTERVAL_SECONDS: Final = 0.2
LAG_INTERVAL_SECONDS: Final = 0.05  # between two samples of how late the load generator is


@final
@dataclass(frozen=True)
class EdgeProgress:
    """The progress of one edge. score: the mean so far. undelivered: labels that it does not have yet.

    recent_seconds: latencies of its last requests.
    """

    planned: int
    events: int
    failures: int
    undelivered: int
    is_down: bool
    score: float | None
    recent_seconds: Sequence[float]

    @property
    def latency(self) -> Latency:
        """The latency of the last requests. Computed on demand, since it takes a moment."""
        return Latency.from_seconds(self.recent_seconds)


@final
@dataclass(frozen=True)
class Progress:
    """The progress of a replay. seconds: since its start. seconds_left: an estimate; None if there is none yet."""

    seconds: float
    seconds_left: float | None
    edges: Mapping[str, EdgeProgress]

    @property
    def score(self) -> float | None:
        """The mean over edges."""
        return mean([e.score for e in self.edges.values() if e.score is not None])


OnProgress = Callable[[Progress], None]


@final
class Replay:
    """A replay of streams to the edges of the same names. Make it and run it once, inside an event loop.

    alter_labels: returns the labels to send, from (edge, first event, true labels); scores always use the true labels.
    values: see ``Dataset``; fields without values are sent as the streams have them.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream],
        clients: Mapping[str, Client],
        options: ReplayOptions,
        *,
        task: Task,
        alter_labels: AlterLabels | None = None,
        values: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        check_choice("task", task, METRICS)
        if not streams or set(streams) != set(clients):
            raise InvalidValue(
                "clients", sorted(clients), f"one for each of {', '.join(streams) or 'at least one edge'}"
            )
        self._options, self._task = options, task
        self._clock = asyncio.get_running_loop().time
        self._started, self._seconds = 0.0, 0.0
        self._running, self.stopped = False, False
        self._lags: list[float] = []
        start = first_event_time(streams.values())
        texts = {name: np.array(known, dtype=object) for name, known in (values or {}).items()}
        self._edges = []
        for number, (edge, stream) in enumerate(streams.items()):
            plan = Plan.make(stream, options, start=start, rng=np.random.default_rng([options.seed, number]))
            scores = StreamScores(stream.labels, stream.times, task, options.batch_size)
            self._edges.append(
                EdgeReplay(
                    edge,
                    stream,
                    plan,
                    clients[edge],
                    options,
                    EdgeCounts(scores, plan.event_count),
                    alter_labels=alter_labels,
                    values=texts,
                    clock=self._clock,
                )
            )

    async def run(self, *, on_progress: OnProgress | None = None, stop: asyncio.Event | None = None) -> None:
        """Run to the end, or until ``stop`` is set or this is cancelled. No task is left running in either case."""
        self._started, self._running = self._clock(), True
        edges = asyncio.create_task(self._run_edges())
        tasks: list[asyncio.Task[Any]] = [edges, asyncio.create_task(self._sample_lag())]
        if stop is not None:
            tasks.append(asyncio.create_task(stop.wait()))
        if on_progress is not None:
            tasks.append(asyncio.create_task(self._report_progress(on_progress)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stopped = not edges.done()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._seconds, self._running = self._clock() - self._started, False
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if on_progress is not None:
            on_progress(self.progress())

    async def _run_edges(self) -> None:
        async with asyncio.TaskGroup() as group:
            for edge in self._edges:
                group.create_task(edge.run(self._started))

    async def _report_progress(self, on_progress: OnProgress) -> None:
        while True:
            on_progress(self.progress())
            await asyncio.sleep(PROGRESS_INTERVAL_SECONDS)

    async def _sample_lag(self) -> None:
        """Sample how late this event loop wakes up: all requests and answers are delayed by as much."""
        while True:
            moment = self._clock() + LAG_INTERVAL_SECONDS
            await asyncio.sleep(LAG_INTERVAL_SECONDS)
            self._lags.append(max(0.0, self._clock() - moment))

    def progress(self) -> Progress:
        """Return the progress until now."""
        seconds = self._elapsed()
        edges = {
            one.edge: EdgeProgress(
                planned=one.plan.event_count,
                events=one.counts.scores.prediction_count,
                failures=one.counts.failures,
                undelivered=one.undelivered,
                is_down=one.is_down,
                score=one.counts.scores.mean(),
                recent_seconds=one.counts.latency[-RECENT_REQUESTS:],
            )
            for one in self._edges
        }
        return Progress(seconds, self._seconds_left(seconds, edges), edges)

    def result(self) -> ReplayResult:
        """Return the result until now."""
        seconds, options = self._elapsed(), self._options
        edges = tuple(
            one.counts.result(
                one.edge,
                one.client.url,
                retries=one.breaker.retries,
                undelivered=one.undelivered,
                gave_up=one.gave_up,
            )
            for one in self._edges
        )
        result = ReplayResult(
            task=self._task,
            metric=METRICS[self._task],
            batch_size=options.batch_size,
            speed=options.speed,
            delay=str(options.delay),
            per_request=options.per_request,
            connections=options.connections,
            seconds=seconds,
            stopped=self.stopped,
            generator_lag=Latency.from_seconds(self._lags),
            total=sum_up([one.counts for one in self._edges], edges, seconds),
            edges=edges,
        )
        return with_notes(result)

    def _elapsed(self) -> float:
        return self._clock() - self._started if self._running else self._seconds

    def _seconds_left(self, seconds: float, edges: Mapping[str, EdgeProgress]) -> float | None:
        options = self._options
        limit = options.limit_seconds - seconds if options.limit_seconds is not None else float("inf")
        if options.speed is not None:
            end = max(one.plan.end for one in self._edges) / options.speed
            return max(0.0, min(limit, end - seconds))
        unfinished = [(e.events, e.planned - e.events) for e in edges.values() if e.planned > e.events]
        if any(events == 0 for events, _ in unfinished):
            return None
        return max(0.0, min(limit, max((seconds * rest / events for events, rest in unfinished), default=0.0)))


async def replay(
    streams: Mapping[str, Stream],
    clients: Mapping[str, Client],
    options: ReplayOptions,
    *,
    task: Task,
    alter_labels: AlterLabels | None = None,
    values: Mapping[str, Sequence[str]] | None = None,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
) -> ReplayResult:
    """Stream events to edges, send their labels as feedback, and return how well and how fast the edges predicted.

    It ends early when ``stop`` is set. To have a result after a cancellation too, use ``Replay``.
    """
    whole = Replay(streams, clients, options, task=task, alter_labels=alter_labels, values=values)
    await whole.run(on_progress=on_progress, stop=stop)
    return whole.result()
