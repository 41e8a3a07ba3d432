"""What an edge remembers of its peers: raw weights, Adam's state for each, and what it last fetched."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, final

import torch

from alphaedge.core.aggregation import Learned, Weights
from alphaedge.core.selection import P


@final
@dataclass(slots=True)
class Link:
    """One peer, or the edge itself, in the eyes of an edge."""

    weight: float
    m: float = 0.0
    v: float = 0.0
    steps: float = 0.0
    publication: int = -1  # the newest that the edge holds rows of, -1 for none
    fetched_at: int = -1  # the edge's own aggregation at which that was


@final
@dataclass(slots=True)
class Links(Generic[P]):
    """The peers of one edge: its neighbours now, and every other edge whose weight it remembers."""

    own: Link
    neighbours: list[P]
    known: dict[P, Link] = field(default_factory=dict)

    @classmethod
    def start(cls, neighbours: Sequence[P], weight: float) -> "Links[P]":
        """First neighbours, each with the same weight as the own model."""
        return cls(Link(weight), list(neighbours), {j: Link(weight) for j in neighbours})

    def shares(self) -> dict[P, float]:
        """Weights of the neighbours, normalised to sum 1 together with the own one: what an edge tells others."""
        total = self.own.weight + sum(self.known[j].weight for j in self.neighbours)
        return {j: self.known[j].weight / total if total > 0 else 0.0 for j in self.neighbours}

    def remembered(self) -> dict[P, float]:
        """Weights of former neighbours, on the scale of ``shares``."""
        total = self.own.weight + sum(self.known[j].weight for j in self.neighbours)
        former = {j: link.weight for j, link in self.known.items() if j not in self.neighbours}
        return {j: weight / total if total > 0 else 0.0 for j, weight in former.items()}

    def switch(self, neighbours: Sequence[P], rule: Learned) -> None:
        """Take up new neighbours; newcomers start at ``rule.newcomer`` or, if remembered, where they were."""
        staying: list[P] = [j for j in neighbours if j in self.neighbours]
        incumbents = [self.own.weight, *(self.known[j].weight for j in staying)]
        fresh = rule.newcomer * sum(incumbents) / len(incumbents)
        for j in self.neighbours:
            if j not in neighbours:
                if rule.remember:  # the weight stays, the copy of its rows does not
                    self.known[j].publication = self.known[j].fetched_at = -1
                else:
                    del self.known[j]
        for j, link in self.known.items():
            if j not in self.neighbours:
                link.weight += rule.fade * (fresh - link.weight)
        for j in neighbours:
            if j not in self.known:
                self.known[j] = Link(fresh)
        self.neighbours = list(neighbours)

    def drop(self, peer: P) -> None:
        """Part with a neighbour for good reason: its weight is 0 from now on, whether or not it is chosen again."""
        self.neighbours = [j for j in self.neighbours if j != peer]
        self.known[peer] = Link(0.0)


def stack(links: Sequence[Links[Any]], width: int, dtype: torch.dtype) -> Weights:
    """The raw weights of some edges as tensors [g, 1 + width], own first, neighbours in order, zeros after."""
    rows = []
    for each in links:
        chain = [each.own, *(each.known[j] for j in each.neighbours)]
        padding = [(0.0, 0.0, 0.0, 0.0)] * (1 + width - len(chain))
        rows.append([(link.weight, link.m, link.v, link.steps) for link in chain] + padding)
    raw, m, v, steps = torch.tensor(rows, dtype=dtype).view(len(rows), 1 + width, 4).unbind(2)
    return Weights(raw.contiguous(), m.contiguous(), v.contiguous(), steps.contiguous())


def unstack(weights: Weights, links: Sequence[Links[Any]]) -> None:
    """Write learned weights back."""
    columns = (weights.raw.tolist(), weights.m.tolist(), weights.v.tolist(), weights.steps.tolist())
    for each, raw, m, v, steps in zip(links, *columns, strict=True):
        for place, link in enumerate([each.own, *(each.known[j] for j in each.neighbours)]):
            link.weight, link.m, link.v, link.steps = raw[place], m[place], v[place], steps[place]
