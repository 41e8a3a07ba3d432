"""What a fleet does, followed through whichever of its edges is there: as a person with a dashboard would."""

import asyncio
from collections.abc import Sequence
from typing import Final, final

from alphaedge.demo.fleet import DemoFleet
from alphaedge.errors import Unreachable
from alphaedge.monitoring.client import FleetClient
from alphaedge.monitoring.frames import Event, Frame
from alphaedge.monitoring.vitals import EdgeView

PAUSE: Final = 0.3  # seconds before another edge is asked


@final
class Watcher:
    """The fleet as it was told, frame by frame. prefer: the edges to look through, the best first."""

    def __init__(self, fleet: DemoFleet, prefer: Sequence[str]) -> None:
        self._fleet, self._prefer = fleet, list(prefer)
        self.state: dict[str, EdgeView] = {}
        self.frames: list[Frame] = []

    @property
    def events(self) -> list[Event]:
        """All that was told to have happened."""
        return [event for frame in self.frames for event in frame.events]

    async def follow(self) -> None:
        """For ever."""
        while True:
            for name in self._prefer:
                if self._fleet.running(name):
                    await self._through(name)
                    break
            await asyncio.sleep(PAUSE)

    async def _through(self, name: str) -> None:
        after = self.frames[-1].time if self.frames else 0.0
        try:
            async for frame in FleetClient(self._fleet.url(name)).stream(after):
                self.frames.append(frame)
                self.state.update(frame.edges)
        except Unreachable:
            return
