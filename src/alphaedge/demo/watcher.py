"""The watcher of a demonstration: follows the fleet through whichever of its edges runs, as a dashboard would."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, final

from alphaedge.demo.fleet import DemoFleet
from alphaedge.errors import Unreachable
from alphaedge.monitoring.client import FleetClient
from alphaedge.monitoring.frames import FleetEvent, Frame
from alphaedge.monitoring.vitals import EdgeView

RECONNECT_SECONDS: Final = 0.3


@final
class FleetWatcher:
    """Collects the frames of a fleet. preferred: the edges to watch through, best first."""

    def __init__(self, fleet: DemoFleet, preferred: Sequence[str]) -> None:
        self._fleet, self._preferred = fleet, list(preferred)
        self.state: dict[str, EdgeView] = {}
        self.frames: list[Frame] = []

    @property
    def events(self) -> list[FleetEvent]:
        """All events until now."""
        return [event for frame in self.frames for event in frame.events]

    async def follow(self) -> None:
        """Follow the fleet until cancelled."""
        while True:
            running = [name for name in self._preferred if self._fleet.is_running(name)]
            if running:
                await self._follow_through(running[0])
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _follow_through(self, name: str) -> None:
        after = self.frames[-1].time if self.frames else 0.0
        with contextlib.suppress(Unreachable):
            async for frame in FleetClient(self._fleet.url(name)).stream(after):
                self.frames.append(frame)
                self.state.update(frame.edges)
