"""Work for large requests in short steps: one request at a time, so that small ones never wait for more than a step."""

import asyncio
from typing import TypeVar, final

from alphaedge.steps import Steps, finish, take_turns

T = TypeVar("T")


@final
class Turns:
    """Runs the work of requests on the event loop."""

    def __init__(self) -> None:
        self._large = asyncio.Lock()

    async def run(self, work: Steps[T], *, large: bool) -> T:
        """Do the work: at once, or step by step if it is large."""
        if not large:
            return finish(work)
        async with self._large:
            return await take_turns(work)
