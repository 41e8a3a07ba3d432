"""All edges are neighbours."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.core.selection import P, View
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Everybody:
    """All edges are neighbours."""

    peers: ClassVar[int | None] = None

    every: int = 1

    def __post_init__(self) -> None:
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """All of them."""
        return sorted(set(candidates) - {edge})

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """All of them."""
        return sorted(set(view.candidates) - {view.edge})
