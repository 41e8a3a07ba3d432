"""K random neighbours, drawn once."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from alphaedge.core.selection import P, View, draw_peers
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Fixed:
    """K random peers, drawn once; one that leaves is replaced at random."""

    peers: int = 5
    every: int = 1

    def __post_init__(self) -> None:
        check_number("peers", self.peers, low=1, whole=True)
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """K random peers."""
        return draw_peers(candidates, self.peers, {edge}, rng)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """The same peers, as long as they are there."""
        staying = [j for j in view.neighbours if j in view.candidates]
        return staying + draw_peers(view.candidates, self.peers - len(staying), {view.edge}.union(staying), rng)
