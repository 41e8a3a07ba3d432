"""The scribe: writes the journal for many callers at once.

A commit that is on disk takes as long for one prediction as for a hundred, so whatever came while the last commit ran
is written by the next one. Nobody gets an answer before what he sent is on disk.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, final

from alphaedge.edge.journal import Journal, Outcome


@final
@dataclass
class _Wish:
    features: Sequence[bytes]
    outputs: Sequence[float]
    outcomes: Sequence[tuple[int, float]]
    done: asyncio.Future[Any]


@final
class Scribe:
    """The one who writes; ``clock`` tells the time in seconds."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal, self._clock = journal, clock
        self._waiting: list[_Wish] = []
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="scribe")
        self._busy: asyncio.Task[None] | None = None

    async def predicted(self, features: Sequence[bytes], outputs: Sequence[float]) -> list[int]:
        """Note predictions; their ids."""
        return list(await self._wish(features, outputs, ()))

    async def told(self, outcomes: Sequence[tuple[int, float]]) -> list[Outcome]:
        """Note outcomes; what became of each."""
        return list(await self._wish((), (), outcomes))

    async def tidy(self, work: Callable[[Journal], Any]) -> Any:
        """Anything else that writes, in its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._hand, work, self._journal)

    async def _wish(
        self, features: Sequence[bytes], outputs: Sequence[float], outcomes: Sequence[tuple[int, float]]
    ) -> Any:
        wish = _Wish(features, outputs, outcomes, asyncio.get_running_loop().create_future())
        self._waiting.append(wish)
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._write())
        return await wish.done

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            wishes, self._waiting = self._waiting, []
            try:
                found = await loop.run_in_executor(self._hand, self._all, wishes)
            except Exception as error:  # whatever it is, it is the callers' to hear
                for wish in wishes:
                    if not wish.done.done():
                        wish.done.set_exception(error)
            else:
                for wish, answer in zip(wishes, found, strict=True):
                    if not wish.done.done():
                        wish.done.set_result(answer)

    def _all(self, wishes: Sequence[_Wish]) -> list[Any]:
        now = self._clock()
        features = [f for wish in wishes for f in wish.features]
        outputs = [y for wish in wishes for y in wish.outputs]
        outcomes = [o for wish in wishes for o in wish.outcomes]
        ids = iter(self._journal.predict(features, outputs, now) if features else [])
        told = iter(self._journal.tell(outcomes, now) if outcomes else [])
        return [
            [next(ids) for _ in wish.features] if wish.features else [next(told) for _ in wish.outcomes]
            for wish in wishes
        ]

    def close(self) -> None:
        """Finish what was begun."""
        self._hand.shutdown(wait=True)
