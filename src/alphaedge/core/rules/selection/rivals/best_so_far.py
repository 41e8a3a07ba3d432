"""The peers with the largest weights so far, and some random ones: how PENS and FedFomo find peers of their kind.

With the share explored of K places, as in an epsilon-greedy choice (Zhang et al., 2021; Onoszko et al., 2021 explore
for some rounds first and then no more).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from alphaedge.core.selection import P, View, draw_peers
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class BestSoFar:
    """Of all peers that the edge remembers, those with the largest weights when they were last weighed.

    peers: K. explore: how many of them are drawn at random from the others. A peer without weight is one of the others.
    """

    peers: int = 5
    explore: int = 2
    every: int = 1

    def __post_init__(self) -> None:
        check_number("peers", self.peers, low=1, whole=True)
        check_number("explore", self.explore, low=0, whole=True)
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """K random peers."""
        return draw_peers(candidates, self.peers, {edge}, rng)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """The best so far, then random ones for the places that are left."""
        there = set(view.candidates) - {view.edge}
        worth = {j: share for j, share in {**view.remembered, **view.shares}.items() if j in there and share > 0}
        # Ties are broken at random, or else low numbers would be everybody's favourites.
        best = sorted(worth, key=lambda j: (-worth[j], rng.random()))[: max(0, self.peers - self.explore)]
        return best + draw_peers(view.candidates, self.peers - len(best), {view.edge}.union(best), rng)
