"""K random neighbours, drawn again at every m-th aggregation."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from alphaedge.core.selection import P, View, draw_peers
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Random:
    """K random peers, drawn anew at every m-th aggregation."""

    peers: int = 5
    every: int = 1

    def __post_init__(self) -> None:
        check_number("peers", self.peers, low=1, whole=True)
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """K random peers."""
        return draw_peers(candidates, self.peers, {edge}, rng)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """K other random peers."""
        return draw_peers(view.candidates, self.peers, {view.edge}, rng)
