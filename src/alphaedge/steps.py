"""Long work in short steps, between which others have their turn.

The work is a generator: it yields after each step and returns its result. So it stays a plain function of its
arguments, and whoever runs it decides what happens between two steps.
"""

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]


def finish(work: Steps[T]) -> T:
    """Do all steps at once.

    >>> def count(steps: int) -> Steps[int]:
    ...     for _ in range(steps):
    ...         yield
    ...     return steps
    >>> finish(count(3))
    3
    """
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


async def take_turns(work: Steps[T]) -> T:
    """Do one step in each turn of the event loop."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        await asyncio.sleep(0)
