"""The fleet as a server shows it: read from its learner's status now and then, kept as frames, told to who listens."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Final, final

import msgspec

from alphaedge.edge.log import warn
from alphaedge.edge.store.status import LearnerStatus, ServerStatus, read, write
from alphaedge.monitoring.frames import Fleet, Frame
from alphaedge.monitoring.history import History
from alphaedge.monitoring.vitals import EdgeView, with_absent

LOOK: Final = 0.5  # seconds between two looks whether the learner has said something
SAY: Final = 2.0  # seconds between two times that the learner is told of the server's own numbers
GRACE: Final = 15.0  # seconds from the learner's start, after which an edge that it knows nothing of counts as down
SILENT: Final = 10.0  # seconds without a word of the learner, after which its edge counts as down


@final
class FleetView:
    """What one edge knows of its fleet. data: its folder. serving: the server's own numbers, which its learner tells
    the fleet. clock: seconds since 1970."""

    def __init__(self, edge: str, data: Path, serving: Callable[[], ServerStatus], clock: Callable[[], float]) -> None:
        self._edge, self._data, self._serving, self._clock = edge, data, serving, clock
        self._history = History(data / "history.jsonl")
        self._news = asyncio.Condition()
        self._said = 0.0
        self._heard: tuple[int, LearnerStatus | None] = (0, None)  # the learner's status, and when it was written
        self._ended = False

    def fleet(self) -> Fleet:
        """All until now."""
        return Fleet(edge=self._edge, now=self._clock(), frames=self._history.since(0.0))

    async def stream(self, after: float) -> AsyncGenerator[Frame, None]:
        """Frames later than a moment, as they come, until the server ends."""
        while not self._ended:
            for frame in self._history.since(after):
                yield frame
                after = frame.time
            async with self._news:
                await self._news.wait_for(lambda after=after: self._ended or bool(self._history.since(after)))  # type: ignore[misc]

    async def watch(self) -> None:
        """For ever: look, keep what is new, and wake those who listen."""
        while True:
            try:
                await self._look()
            except OSError as error:  # a full disk: what is shown is the least that matters then
                warn("the fleet's history can't be written", reason=error)
            await asyncio.sleep(LOOK)

    async def end(self) -> None:
        """Let those who listen go."""
        async with self._news:
            self._ended = True
            self._news.notify_all()

    async def _look(self) -> None:
        # In a thread: while a checkpoint goes to the disk the smallest write may take long, and callers would wait.
        # What it does holds them up as well, though, so most looks find nothing to do.
        now, serving = self._clock(), None
        if not 0 <= now - self._said < SAY:
            self._said, serving = now, self._serving()
        if await asyncio.to_thread(self._written, serving, now):
            async with self._news:
                self._news.notify_all()

    def _written(self, serving: ServerStatus | None, now: float) -> bool:
        """Write down what the server says, if anything, and what the learner does; whether the fleet has changed."""
        if serving is not None:
            write(serving, self._data / "serving.json")
        file = self._data / "status.json"
        try:
            written = file.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        if written == self._heard[0] and not _silent(self._heard[1], now):
            return False
        status = read(file)
        self._heard = (written, status)
        if status is None:
            return False
        return self._history.add(_seen(status, self._history.state, now), now) is not None


def _silent(status: LearnerStatus | None, now: float) -> bool:
    return status is not None and now - status.written >= SILENT


def _seen(status: LearnerStatus, before: Mapping[str, EdgeView], now: float) -> dict[str, EdgeView]:
    """The fleet as the learner told it; a learner that is silent is down, and so is an edge that is not heard of."""
    found = dict(status.fleet)
    if now - status.started > GRACE:  # after a restart it takes a while until all have been heard of
        found = with_absent({**before, **found}, found)
    me = found.get(status.edge)
    if me is not None and _silent(status, now):
        found[status.edge] = msgspec.structs.replace(me, alive=False)
    return found
