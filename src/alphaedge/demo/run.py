"""The run of a demonstration: start the fleet, send it events over HTTP, and cause the incidents of the scenario."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

from alphaedge.data.stream import Dataset, Stream
from alphaedge.demo.fleet import DemoFleet
from alphaedge.demo.scenario import Incident, hostile_labels
from alphaedge.demo.watcher import FleetWatcher
from alphaedge.errors import FleetError
from alphaedge.inference.client import EdgeClient
from alphaedge.monitoring.frames import Frame
from alphaedge.monitoring.vitals import EdgeView
from alphaedge.replay.options import ReplayOptions
from alphaedge.replay.plan import speed_for
from alphaedge.replay.result import ReplayResult
from alphaedge.replay.run import Progress, Replay

MODEL_NAME: Final = "shop"  # in the edges' URLs
START_TIMEOUT_SECONDS: Final = 300.0  # for all edges
LEARNING_TIMEOUT_SECONDS: Final = 60.0  # at the end, for the edges to learn and report what they were sent
POLL_INTERVAL_SECONDS: Final = 0.1
MAX_LISTED_NAMES: Final = 5  # edges in a message


@final
@dataclass
class DemoState:
    """What to show of a demonstration now.

    phase: what it does. seconds, seconds_left: since the start of the traffic, and to its end. incidents: until now,
    with their times (seconds since 1970).
    """

    phase: str
    watcher: FleetWatcher
    seconds: float = 0.0
    seconds_left: float | None = None
    progress: Progress | None = None
    incidents: list[tuple[float, Incident]] = field(default_factory=list)


@final
@dataclass(frozen=True)
class DemoResult:
    """The result of a demonstration. started: the start of the traffic, seconds since 1970. incidents: with times."""

    started: float
    replay: ReplayResult
    incidents: Sequence[tuple[float, Incident]]
    frames: Sequence[Frame]


@final
class Demonstration:
    """One run on a fleet. streams: by edge. seconds: of traffic. show: called often with the state."""

    def __init__(
        self,
        fleet: DemoFleet,
        data: Dataset,
        streams: Mapping[str, Stream],
        *,
        seconds: float,
        scenario: Sequence[Incident],
        options: ReplayOptions,
        show: Callable[[DemoState], None],
    ) -> None:
        self._fleet, self._data, self._streams = fleet, data, streams
        self._seconds, self._scenario, self._options, self._show = seconds, list(scenario), options, show
        harmed = {incident.edge for incident in scenario if incident.kind in ("kill", "hostile")}
        preferred = sorted(streams, key=lambda name: name in harmed)
        self._state = DemoState("starting the edges", FleetWatcher(fleet, preferred))

    async def run(self, stop: asyncio.Event) -> DemoResult | None:
        """Run it; return None if ``stop`` is set before the traffic starts. Stopped later, it ends early."""
        async with contextlib.AsyncExitStack() as stack:
            clients = {name: EdgeClient(self._fleet.url(name), model=MODEL_NAME) for name in self._streams}
            for client in clients.values():
                stack.push_async_callback(client.close)
            await self._wait_until_ready(clients, stop)
            return None if stop.is_set() else await self._send_traffic(clients, stop)

    async def _wait_until_ready(self, clients: Mapping[str, EdgeClient], stop: asyncio.Event) -> None:
        end, waiting = time.monotonic() + START_TIMEOUT_SECONDS, sorted(clients)
        while waiting and not stop.is_set():
            self._fleet.check_running(waiting)
            ready = await asyncio.gather(*(clients[name].ready() for name in waiting))
            waiting = [name for name, is_ready in zip(waiting, ready, strict=True) if not is_ready]
            self._state.phase = f"starting the edges: {len(clients) - len(waiting)} of {len(clients)} are ready"
            self._show(self._state)
            if time.monotonic() > end:
                raise FleetError(f"{_list_names(waiting)}: not ready after {START_TIMEOUT_SECONDS:g} s")
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def _send_traffic(self, clients: Mapping[str, EdgeClient], stop: asyncio.Event) -> DemoResult:
        state, counts = self._state, {name: len(stream) for name, stream in self._streams.items()}
        replay = Replay(
            self._streams,
            clients,
            self._options,
            task=self._data.task,
            alter_labels=hostile_labels(self._scenario, counts, self._data.flip),
            values=self._data.values,
        )
        started, start = time.time(), time.monotonic()
        state.phase = "traffic"

        def show_progress(progress: Progress) -> None:
            state.seconds, state.seconds_left = time.monotonic() - start, progress.seconds_left
            state.progress = progress
            self._show(state)

        tasks = [asyncio.create_task(state.watcher.follow()), asyncio.create_task(self._cause_incidents(start))]
        try:
            await replay.run(on_progress=show_progress, stop=stop)
            for task in tasks:
                if task.done():
                    task.result()  # raises the error that ended it
            await self._wait_until_learned(replay.result(), stop)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return DemoResult(started, replay.result(), list(state.incidents), list(state.watcher.frames))

    async def _cause_incidents(self, start: float) -> None:
        """Cause each incident at its time, then wait to be cancelled."""
        for incident in sorted(self._scenario, key=lambda incident: incident.at):
            await asyncio.sleep(max(0.0, start + incident.at * self._seconds - time.monotonic()))
            if incident.kind == "kill":
                self._fleet.kill(incident.edge)
            elif incident.kind == "restart":
                self._fleet.start([incident.edge])
            elif incident.kind == "cut":
                self._fleet.cut_link(incident.edge, incident.peer)
            self._state.incidents.append((time.time(), incident))
        await asyncio.Event().wait()

    async def _wait_until_learned(self, result: ReplayResult, stop: asyncio.Event) -> None:
        """Wait until every edge reports all batches that its labels make; learners lag behind on a busy machine."""
        labels = {edge.edge: edge.feedback.accepted + edge.feedback.known for edge in result.edges}
        end = time.monotonic() + LEARNING_TIMEOUT_SECONDS
        while not stop.is_set() and time.monotonic() < end:
            behind = lagging_edges(self._state.watcher.state, labels, self._options.batch_size)
            if not behind:
                return
            self._state.phase = f"learning the last labels: {_list_names(behind)}"
            self._show(self._state)
            await asyncio.sleep(POLL_INTERVAL_SECONDS)


def lagging_edges(state: Mapping[str, EdgeView], labels: Mapping[str, int], batch_size: int) -> list[str]:
    """Return the edges that report fewer batches than their labels make. labels: how many each edge has accepted."""
    batches = {name: state[name].vitals.batches if name in state else 0 for name in labels}
    return [name for name, count in labels.items() if batches[name] < count // batch_size]


def demo_options(streams: Mapping[str, Stream], *, seconds: float, batch_size: int, per_request: int) -> ReplayOptions:
    """Return options with a speed at which all events take so many seconds."""
    options = ReplayOptions(
        per_request=per_request, batch_size=batch_size, connections=4, patience=START_TIMEOUT_SECONDS
    )
    return replace(options, speed=speed_for(streams.values(), options, seconds))


def _list_names(names: Sequence[str]) -> str:
    rest = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "")
