"""A demonstration: a fleet is started, gets its events over HTTP, and the story is played on it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

from alphaedge.data.stream import Dataset, Stream
from alphaedge.demo.fleet import DemoFleet
from alphaedge.demo.story import Scene, taught
from alphaedge.demo.watch import Watcher
from alphaedge.errors import FleetError
from alphaedge.inference.client import EdgeClient
from alphaedge.monitoring.frames import Frame
from alphaedge.monitoring.vitals import EdgeView
from alphaedge.replay.pace import Options
from alphaedge.replay.plan import speed_for
from alphaedge.replay.result import ReplayResult
from alphaedge.replay.run import Progress, Replay

MODEL: Final = "shop"  # its name in the edges' URLs
PATIENCE: Final = 300.0  # seconds in which all edges must have started
NAMED: Final = 5  # edges in a message
LOOK: Final = 0.1
LEARNING_TIMEOUT_SECONDS: Final = 60.0  # at the end, for the edges to learn and report what they were sent


@final
@dataclass
class Shot:
    """What is to be seen at a moment. phase: what is being done. seconds, left: since the start of the traffic, and to
    its end. played: the scenes until now, with their moments (seconds since 1970)."""

    phase: str
    watcher: Watcher
    seconds: float = 0.0
    left: float | None = None
    progress: Progress | None = None
    played: list[tuple[float, Scene]] = field(default_factory=list)


@final
@dataclass(frozen=True)
class Played:
    """What came of a demonstration. began: the start of the traffic, in seconds since 1970."""

    began: float
    outcome: ReplayResult
    scenes: Sequence[tuple[float, Scene]]
    frames: Sequence[Frame]


@final
class Demonstration:
    """One run on a fleet. streams: by the edge's name. scenes: what happens. show: gets what is to be seen, often."""

    def __init__(
        self,
        fleet: DemoFleet,
        data: Dataset,
        streams: Mapping[str, Stream],
        *,
        seconds: float,
        scenes: Sequence[Scene],
        options: Options,
        show: Callable[[Shot], None],
    ) -> None:
        self._fleet, self._data, self._streams = fleet, data, streams
        self._seconds, self._scenes, self._show = seconds, list(scenes), show
        self._options = options
        harmed = {scene.edge for scene in scenes if scene.kind in ("kill", "hostile")}
        prefer = sorted(streams, key=lambda name: name in harmed)
        self._shot = Shot("starting the edges", Watcher(fleet, prefer))

    async def run(self, stop: asyncio.Event) -> Played | None:
        """Play it; None if it was stopped before the traffic began. Stopped later, it ends early and in order."""
        async with contextlib.AsyncExitStack() as stack:
            clients = {name: EdgeClient(self._fleet.url(name), model=MODEL) for name in self._streams}
            for client in clients.values():
                stack.push_async_callback(client.close)
            if not await self._started(clients, stop):
                return None
            return await self._traffic(clients, stop)

    async def _started(self, clients: Mapping[str, EdgeClient], stop: asyncio.Event) -> bool:
        end, waiting = time.monotonic() + PATIENCE, set(clients)
        while waiting and not stop.is_set():
            self._fleet.check(sorted(waiting))
            found = await asyncio.gather(*(clients[name].ready() for name in sorted(waiting)))
            waiting -= {name for name, ready in zip(sorted(waiting), found, strict=True) if ready}
            self._shot.phase = f"starting the edges: {len(clients) - len(waiting)} of {len(clients)} are ready"
            self._show(self._shot)
            if time.monotonic() > end:
                raise FleetError(f"{_listed(sorted(waiting))}: not ready after {PATIENCE:g} s")
            await asyncio.sleep(LOOK)
        return not stop.is_set()

    async def _traffic(self, clients: Mapping[str, EdgeClient], stop: asyncio.Event) -> Played:
        shot, counts = self._shot, {name: len(stream) for name, stream in self._streams.items()}
        options = self._options
        labels = taught(self._scenes, counts, self._data.label_range())
        replay = Replay(
            self._streams, clients, options, task=self._data.task, labels=labels, id_values=self._data.id_values
        )
        began, start = time.time(), time.monotonic()
        shot.phase = "traffic"

        def progress(found: Progress) -> None:
            shot.seconds, shot.left, shot.progress = time.monotonic() - start, found.left, found
            self._show(shot)

        beside = [asyncio.create_task(shot.watcher.follow()), asyncio.create_task(self._play(start))]
        try:
            await replay.run(on_progress=progress, stop=stop)
            for task in beside:
                if task.done():
                    task.result()
            await self._learned(replay.outcome(), stop)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        return Played(began, replay.outcome(), list(shot.played), list(shot.watcher.frames))

    async def _play(self, start: float) -> None:
        """Do what the story says, each scene at its moment."""
        for scene in sorted(self._scenes, key=lambda scene: scene.at):
            await asyncio.sleep(max(0.0, start + scene.at * self._seconds - time.monotonic()))
            if scene.kind == "kill":
                self._fleet.kill(scene.edge)
            elif scene.kind == "restart":
                self._fleet.start([scene.edge])
            elif scene.kind == "cut":
                self._fleet.cut(scene.edge, scene.peer)
            self._shot.played.append((time.time(), scene))
        await asyncio.Event().wait()  # it is for whoever runs this to end it

    async def _learned(self, result: ReplayResult, stop: asyncio.Event) -> None:
        """Wait until every edge reports all batches that its labels make; learners may lag behind on a busy machine."""
        labels = {one.edge: one.feedback.accepted + one.feedback.known for one in result.edges}
        end = time.monotonic() + LEARNING_TIMEOUT_SECONDS
        while not stop.is_set() and time.monotonic() < end:
            behind = lagging(self._shot.watcher.state, labels, self._options.batch_size)
            if not behind:
                return
            self._shot.phase = f"learning the last labels: {_listed(behind)}"
            self._show(self._shot)
            await asyncio.sleep(LOOK)


def lagging(state: Mapping[str, EdgeView], labels: Mapping[str, int], batch_size: int) -> list[str]:
    """Edges that report fewer batches than their labels make. labels: how many each edge has accepted."""
    batches = {name: state[name].vitals.batches if name in state else 0 for name in labels}
    return [name for name, count in labels.items() if batches[name] < count // batch_size]


def pace(streams: Mapping[str, Stream], *, seconds: float, batch_size: int, per_request: int) -> Options:
    """A speed at which all events take so long."""
    options = Options(per_request=per_request, batch_size=batch_size, connections=4, patience=PATIENCE)
    return replace(options, speed=speed_for(streams.values(), options, seconds))


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
