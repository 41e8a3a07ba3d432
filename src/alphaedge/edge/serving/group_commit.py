"""The scribe: predicts and writes the journal for many callers at once.

A commit that is on disk takes as long for one prediction as for a hundred, and a model takes hardly longer for thirty
examples than for one. So whatever came while the last commit ran is predicted in one go and written by the next one.
Nobody gets an answer before what he sent is on disk.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from alphaedge.edge.inputs.features import Array
from alphaedge.edge.store.journal import FeedbackResult, Journal

Outputs = NDArray[np.float32]
NOTHING: Outputs = np.empty(0, np.float32)


@final
@dataclass
class _Wish:
    examples: Array | None
    outcomes: Sequence[tuple[int, float]]
    done: asyncio.Future[Any]


@final
class GroupCommit:
    """The one who writes. clock: seconds. predict: predictions of packed examples. pack: them as bytes, one by one."""

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], float],
        predict: Callable[[Array], Outputs],
        pack: Callable[[Array], list[bytes]],
    ) -> None:
        self._journal, self._clock, self._predict, self._pack = journal, clock, predict, pack
        self._waiting: list[_Wish] = []
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="scribe")
        self._busy: asyncio.Task[None] | None = None

    async def predicted(self, examples: Array) -> tuple[list[int], Outputs]:
        """Predict packed examples and note it; ids and predictions."""
        found: tuple[list[int], Outputs] = await self._wish(examples, ())
        return found

    async def told(self, outcomes: Sequence[tuple[int, float]]) -> list[FeedbackResult]:
        """Note outcomes; what became of each."""
        return list(await self._wish(None, outcomes))

    async def tidy(self, work: Callable[[Journal], Any]) -> Any:
        """Anything else that writes, in its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._hand, work, self._journal)

    async def _wish(self, examples: Array | None, outcomes: Sequence[tuple[int, float]]) -> Any:
        wish = _Wish(examples, outcomes, asyncio.get_running_loop().create_future())
        self._waiting.append(wish)
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._write())
        return await wish.done

    async def _write(self) -> None:
        while self._waiting:
            for _ in range(3):
                await asyncio.sleep(0)  # whoever has asked already may come along
            wishes, self._waiting = self._waiting, []
            try:
                answers = await self._all(wishes)
            except Exception as error:  # whatever it is, it is the callers' to hear
                for wish in wishes:
                    if not wish.done.done():
                        wish.done.set_exception(error)
                continue
            for wish, answer in zip(wishes, answers, strict=True):
                if not wish.done.done():
                    wish.done.set_result(answer)

    async def _all(self, wishes: Sequence[_Wish]) -> list[Any]:
        given = [wish.examples for wish in wishes if wish.examples is not None]
        features, outputs = list[bytes](), NOTHING
        if given:
            # Put together as bytes: ``concatenate`` compares the types of all fields of each.
            whole = given[0] if len(given) == 1 else np.frombuffer(b"".join([g.data for g in given]), given[0].dtype)
            features, outputs = self._pack(whole), self._predict(whole)
        outcomes = [o for wish in wishes for o in wish.outcomes]
        write = partial(self._journal.write, features, outputs.tolist(), outcomes, self._clock())
        ids, told = await asyncio.get_running_loop().run_in_executor(self._hand, write)
        answers: list[Any] = []
        at = heard = 0
        for wish in wishes:
            if wish.examples is not None:
                end = at + len(wish.examples)
                answers.append((ids[at:end], outputs[at:end]))
                at = end
            else:
                end = heard + len(wish.outcomes)
                answers.append(told[heard:end])
                heard = end
        return answers

    def close(self) -> None:
        """Finish what was begun."""
        self._hand.shutdown(wait=True)
