"""The fleet as a server shows it: read from its learner's status, kept as a history of frames, streamed to clients."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Final, final

import msgspec

from alphaedge.edge.log import warn
from alphaedge.edge.store.status import LearnerStatus, ServerStatus, read_learner_status, write_status
from alphaedge.monitoring.frames import Fleet, Frame
from alphaedge.monitoring.history import History
from alphaedge.monitoring.vitals import EdgeView, with_absent

POLL_INTERVAL_SECONDS: Final = 0.5  # between two looks at the learner's status
SERVER_STATUS_INTERVAL_SECONDS: Final = 2.0  # between two writes of the server's own status
START_GRACE_SECONDS: Final = 15.0  # after the learner's start, until an edge that it does not see counts as down
SILENCE_SECONDS: Final = 10.0  # without a status of the learner, until its edge counts as down


@final
class FleetView:
    """What one edge knows about its fleet.

    data: the edge's data folder. server_status: the server's own numbers, which the learner announces to the fleet.
    clock: seconds since 1970.
    """

    def __init__(
        self, edge: str, data: Path, server_status: Callable[[], ServerStatus], clock: Callable[[], float]
    ) -> None:
        self._edge, self._data, self._server_status, self._clock = edge, data, server_status, clock
        self._history = History(data / "history.jsonl")
        self._changed = asyncio.Condition()
        self._reported = 0.0  # when the server's status was last written
        self._last: tuple[int, LearnerStatus | None] = (0, None)  # the learner's status, and its file's mtime in ns
        self._closed = False

    def fleet(self) -> Fleet:
        """The whole history."""
        return Fleet(edge=self._edge, now=self._clock(), frames=self._history.since(0.0))

    async def stream(self, after: float) -> AsyncGenerator[Frame, None]:
        """Yield frames later than a time, as they come, until ``close``."""
        while not self._closed:
            for frame in self._history.since(after):
                yield frame
                after = frame.time
            async with self._changed:
                await self._changed.wait_for(lambda after=after: self._closed or bool(self._history.since(after)))  # type: ignore[misc]

    async def watch(self) -> None:
        """Poll the learner's status forever; keep what is new and wake the streams."""
        while True:
            try:
                await self._poll()
            except (OSError, MemoryError) as error:  # without room on disk or in memory the history matters least
                warn("history_write_failed", reason=error)
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def close(self) -> None:
        """End all streams."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def _poll(self) -> None:
        # In a thread: while a checkpoint is being written even a small write may block, and callers would wait for it.
        # The thread delays them a little, too, so most polls do nothing.
        now, server_status = self._clock(), None
        if not 0 <= now - self._reported < SERVER_STATUS_INTERVAL_SECONDS:
            self._reported, server_status = now, self._server_status()
        if await asyncio.to_thread(self._update, server_status, now):
            async with self._changed:
                self._changed.notify_all()

    def _update(self, server_status: ServerStatus | None, now: float) -> bool:
        """Write the server's status, if given, and read the learner's. Returns whether the fleet has changed."""
        if server_status is not None:
            write_status(server_status, self._data / "serving.json")
        file = self._data / "status.json"
        try:
            modified = file.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        if modified == self._last[0] and not _is_silent(self._last[1], now):
            return False
        status = read_learner_status(file)
        self._last = (modified, status)
        if status is None:
            return False
        return self._history.add(fleet_state(status, self._history.state, now), now) is not None


def _is_silent(status: LearnerStatus | None, now: float) -> bool:
    return status is not None and now - status.written >= SILENCE_SECONDS


def fleet_state(status: LearnerStatus, before: Mapping[str, EdgeView], now: float) -> dict[str, EdgeView]:
    """The fleet as the learner sees it. An edge that it no longer sees is down, and so is its own if it is silent.

    After a start it takes a while until all are seen; until then, those that are not are starting.
    """
    state = dict(status.fleet)
    me = state.get(status.edge)
    if now - status.started > START_GRACE_SECONDS:
        state = with_absent({**before, **state}, state)
    else:
        if me is not None and any(peer not in state for peer in me.vitals.neighbours):
            me = state[status.edge] = msgspec.structs.replace(me, starting=True)
        awaited = {name: view for name, view in before.items() if name not in state}
        state |= {name: msgspec.structs.replace(view, starting=True) for name, view in awaited.items()}
    if me is not None and _is_silent(status, now):
        state[status.edge] = msgspec.structs.replace(me, alive=False)
    return state
