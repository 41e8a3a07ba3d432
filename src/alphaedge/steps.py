"""Long work in short steps, so that others have their turn in between.

The work is a generator: it yields after each step and returns its result. So it stays a plain function of its
arguments, and whoever runs it decides what happens between two steps.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar, final

T = TypeVar("T")
Steps = Generator[None, None, T]
SLICE_SECONDS: Final = 0.001  # of steps, before the event loop does something else


def run_at_once(steps: Steps[T]) -> T:
    """Take all steps without a pause.

    >>> def count(steps: int) -> Steps[int]:
    ...     for _ in range(steps):
    ...         yield
    ...     return steps
    >>> run_at_once(count(3))
    3
    """
    work = _Work(steps)
    work.go_on(math.inf)
    return work.result


async def run_in_slices(steps: Steps[T], turn: AbstractAsyncContextManager[Any] | None = None) -> T:
    """Take steps for a short while, then let the event loop run, and so on.

    turn: entered by work that takes more than one slice; a lock lets such work run one after the other.
    """
    work = _Work(steps)
    if not work.go_on(SLICE_SECONDS):
        async with turn or contextlib.nullcontext():
            await asyncio.sleep(0)
            while not work.go_on(SLICE_SECONDS):
                await asyncio.sleep(0)
    return work.result


@final
class _Work(Generic[T]):
    """Steps that have been taken in part. result: once all have."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self.result: T

    def go_on(self, seconds: float) -> bool:
        """Take steps until the time is over; returns whether all have been taken."""
        end = time.perf_counter() + seconds
        try:
            while True:
                next(self._steps)
                if time.perf_counter() >= end:
                    return False
        except StopIteration as done:
            self.result = done.value
            return True
