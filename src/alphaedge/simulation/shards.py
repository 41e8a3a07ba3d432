"""A fleet in several processes: each holds a part of the edges, a shard, and they take every step of a run together.

A shard has the models, publications and batches of its own edges. Of all others it knows what edges tell each other:
when they published, whom they pull from, and which have stopped. Of their publications it gets those that its own edges
pull (``simulation.rounds.pull``), and nothing else.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, TypeVar, final

T = TypeVar("T")


class Shards(Protocol):
    """The shards of one fleet, as one of them sees them."""

    @property
    def rank(self) -> int:
        """Which one this is."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def swap(self, messages: Sequence[T]) -> list[T]:
        """Send each shard a message, this one included; returns those that they send to this one.

        All shards call this equally often; each waits for the others.
        """
        ...


@final
class OneShard:
    """All edges in one place."""

    rank, count = 0, 1

    def swap(self, messages: Sequence[T]) -> list[T]:
        """Return its own message."""
        return list(messages)


def gather(shards: Shards, found: T) -> list[T]:
    """What each shard has found; they all call this."""
    return shards.swap([found] * shards.count)


def cut(work: Sequence[int], shards: int) -> list[range]:
    """Cut edges into ranges of about equal work, none of them empty. work: by edge.

    >>> cut([1, 1, 1, 1, 4], 2)
    [range(0, 4), range(4, 5)]
    """
    done, total = [0, *accumulate(work)], sum(work)
    bounds = [0]
    for part in range(1, shards):
        best = min(range(len(done)), key=lambda e: abs(done[e] - total * part / shards))
        bounds.append(min(max(best, bounds[-1] + 1), len(work) - (shards - part)))
    return [range(first, last) for first, last in zip(bounds, [*bounds[1:], len(work)], strict=True)]
