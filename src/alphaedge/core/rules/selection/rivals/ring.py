"""A ring: every edge pulls from the two beside it, in the order of their names (Lian et al., 2017)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.core.selection import P, View
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Ring:
    """The edges before and after one's own in the order of all candidates; the ring closes where one leaves."""

    peers: ClassVar[int | None] = 2

    every: int = 1

    def __post_init__(self) -> None:
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """The two beside the edge, or the one that there is."""
        others = [j for j in candidates if j != edge]
        if not others:
            return []
        before = max((j for j in others if j < edge), default=max(others))
        after = min((j for j in others if j > edge), default=min(others))
        return [before] if before == after else [before, after]

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """The same, among the candidates of now."""
        return self.first(view.edge, view.candidates, rng)
