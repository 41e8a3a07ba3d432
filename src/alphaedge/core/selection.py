"""Step 3 of the method: peer selection, as far as every rule shares it.

A rule (``core/rules``) chooses an edge's neighbours: ``greedy.py`` is the paper's, by two-hop neighbours. This file has
what rules are given (``View``), and the drawing of random peers.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, final

P = TypeVar("P", int, str)  # how edges are named: by numbers in a simulation, by names in a fleet


@final
@dataclass(frozen=True)
class View(Generic[P]):
    """What an edge knows when it chooses.

    candidates: the edges it knows and may pull from (it never chooses itself).
    shares: its own normalised weight for each neighbour. topology: the same of other edges, as far as known.
    remembered: the weight it had for former neighbours, on the scale of ``shares``.
    """

    edge: P
    neighbours: Sequence[P]
    candidates: Sequence[P]
    shares: Mapping[P, float]
    topology: Mapping[P, Mapping[P, float]]
    remembered: Mapping[P, float] = field(default_factory=dict)


class Selection(Protocol):
    """A selection rule: whom an edge pulls from. ``alphaedge.testing.check_selection`` checks one.

    Implementations are values (frozen dataclasses). Randomness comes from ``rng`` alone.
    """

    @property
    def peers(self) -> int | None:
        """How many neighbours the rule wants, K; None for as many as there are."""
        ...

    @property
    def every(self) -> int:
        """Aggregations per selection, m."""
        ...

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """The first neighbours of an edge, among the candidates and without the edge itself."""
        ...

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """The neighbours until the next selection, among the candidates and without the edge itself."""
        ...


def draw_peers(
    candidates: Sequence[P], count: int, excluded: Collection[P], rng: random.Random, *, shuffled: bool = False
) -> list[P]:
    """``count`` random candidates that are not excluded, or all there are; in order unless ``shuffled``."""
    if count <= 0:
        return []
    if len(candidates) > 8 * (count + len(excluded)):  # a large fleet: rather draw again than list everybody
        drawn: list[P] = []
        while len(drawn) < count:
            one = candidates[rng.randrange(len(candidates))]
            if one not in excluded and one not in drawn:
                drawn.append(one)
    else:
        pool = sorted(set(candidates) - set(excluded))
        drawn = rng.sample(pool, min(count, len(pool)))
    return drawn if shuffled else sorted(drawn)
