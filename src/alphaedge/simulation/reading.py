"""Which publications edges read in a round: those of their neighbours, and those of the others that they hear."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import torch
from torch import Tensor

from alphaedge.simulation.world import World

T = TypeVar("T")
Publication = tuple[int, int]  # whose, numbered through all runs, and which


@final
@dataclass(frozen=True)
class Reading:
    """What g edges read of their peers: for each edge the peers by their local numbers, which of their publications,
    and whether it comes."""

    world: World
    edges: Sequence[int]
    peers: Sequence[Sequence[int]]
    numbers: Sequence[Sequence[int]]
    there: Sequence[Sequence[bool]]

    @classmethod
    def of(cls, world: World, edges: Sequence[int], peers: Sequence[Sequence[int]]) -> "Reading":
        """What edges read at their moments: the newest publications of these peers that are not too new."""
        pairs, stale = list(zip(edges, peers, strict=True)), world.conditions.staleness
        numbers = [[max(0, number - stale) for number in world.newest(e, some)] for e, some in pairs]
        return cls(world, edges, peers, numbers, [world.present(e, some) for e, some in pairs])

    def answered(self) -> "Reading":
        """The same of those edges that somebody answers."""
        kept = [place for place, there in enumerate(self.there) if any(there)]
        edges, peers = [self.edges[i] for i in kept], [self.peers[i] for i in kept]
        return Reading(self.world, edges, peers, [self.numbers[i] for i in kept], [self.there[i] for i in kept])

    @property
    def needed(self) -> set[Publication]:
        """The publications that come."""
        rows = zip(self.publications, self.there, strict=True)
        return {one for some, there in rows for one, comes in zip(some, there, strict=True) if comes}

    @property
    def publications(self) -> list[list[Publication]]:
        """All publications, whether they come or not."""
        world, rows = self.world, zip(self.edges, self.peers, self.numbers, strict=True)
        return [[(world.base(e) + j, k) for j, k in zip(some, numbers, strict=True)] for e, some, numbers in rows]

    @property
    def width(self) -> int:
        """The most peers of an edge, P."""
        return max(map(len, self.peers), default=0)

    @property
    def present(self) -> Tensor:
        """Which publications come, [g, P]."""
        return self._padded(self.there, [False] * len(self.edges))

    @property
    def number(self) -> Tensor:
        """Which publications these are, [g, P]."""
        return self._padded(self.numbers, [0] * len(self.edges))

    @property
    def rows(self) -> list[Tensor]:
        """Where the peers have the rows of the edges, per id table [g, P, C + 1]."""
        named = [[j for j, _ in some] for some in self.publications]
        padded = [_fill(some, self.width, self.world.own[e]) for e, some in zip(self.edges, named, strict=True)]
        return self.world.rows_at(self.edges, padded)

    def slot(self, places: Mapping[Publication, int]) -> Tensor:
        """Where the publications lie in the pool, [g, P]; the edge's own place for one that does not come."""
        rows = zip(self.edges, self.publications, strict=True)
        return self._padded([[places.get(one, e) for one in some] for e, some in rows], list(self.edges))

    def padded(self, values: Sequence[Sequence[int]], filler: int) -> Tensor:
        """A value for each peer, as [g, P]."""
        return self._padded(values, [filler] * len(self.edges))

    def _padded(self, values: Sequence[Sequence[T]], fillers: Sequence[T]) -> Tensor:
        rows = [_fill(some, self.width, filler) for some, filler in zip(values, fillers, strict=True)]
        return torch.tensor(rows, device=self.world.device)


def _fill(values: Sequence[T], width: int, filler: T) -> list[T]:
    return [*values, *[filler] * (width - len(values))]
