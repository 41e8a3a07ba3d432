"""What an edge remembers of its peers: raw weights, the rule's numbers, what it last pulled, and whom it hears."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, final

import torch

from alphaedge.core.aggregation import PeerMemory, Weights
from alphaedge.core.selection import P


@final
@dataclass(slots=True)
class Link:
    """One peer, or the edge itself, in the eyes of an edge.

    numbers: what the aggregation rule keeps of it, by name (``PeerMemory.numbers``).
    publication: the newest that the edge holds rows of, -1 for none; pulled_at: the edge's aggregation at which it
    got that.
    tried, excess: whether it has stood a trial, and its loss above the edge's own in those so far (``core.trial``).
    missed: rounds in a row without its model. absences: exclusions because of that, halved by every model that comes.
    exclusions: those because of a trial, halved by every clearly good one.
    excluded_until: the edge's aggregation before which it is no candidate.
    """

    weight: float
    numbers: dict[str, float] = field(default_factory=dict)
    publication: int = -1
    pulled_at: int = -1
    tried: bool = False
    excess: float = 0.0
    missed: int = 0
    absences: int = 0
    exclusions: int = 0
    excluded_until: int = 0

    def is_excluded(self, aggregation: int) -> bool:
        """Whether the peer is no candidate at that aggregation of the edge."""
        return aggregation < self.excluded_until

    def counts(self, aggregation: int) -> bool:
        """Whether the peer's model may be mixed in at that aggregation: it is not excluded, nor does it have to pass
        further trials first."""
        return not self.exclusions and not self.is_excluded(aggregation)


@final
@dataclass(slots=True)
class Ear:
    """A peer whose tallies of ids an edge hears, or has heard (``core.hearing``).

    agreed, told: how far its tallies have told own labels, and how much they said.
    publication, pulled_at: as of a ``Link``, of its tallies where they are pulled alone.
    """

    agreed: float = 0.0
    told: float = 0.0
    publication: int = -1
    pulled_at: int = -1


@final
@dataclass(slots=True)
class Links(Generic[P]):
    """The peers of one edge.

    neighbours: whose models it mixes; known: these, and every other edge whose weight it remembers.
    others: whose tallies alone it pulls; ears: these, and every other edge that it has heard.
    """

    own: Link
    neighbours: list[P]
    known: dict[P, Link] = field(default_factory=dict)
    others: list[P] = field(default_factory=list)
    ears: dict[P, Ear] = field(default_factory=dict)

    @classmethod
    def start(cls, neighbours: Sequence[P], memory: PeerMemory) -> "Links[P]":
        """First neighbours, each with the same weight as the edge's own model."""
        return cls(Link(memory.start), list(neighbours), {j: Link(memory.start) for j in neighbours})

    def shares(self) -> dict[P, float]:
        """Weights of the neighbours, normalised to sum 1 together with the edge's own: what an edge announces."""
        total = self.own.weight + sum(self.known[j].weight for j in self.neighbours)
        return {j: self.known[j].weight / total if total > 0 else 0.0 for j in self.neighbours}

    def remembered(self) -> dict[P, float]:
        """Weights of former neighbours, on the scale of ``shares``."""
        total = self.own.weight + sum(self.known[j].weight for j in self.neighbours)
        former = {j: link.weight for j, link in self.known.items() if j not in self.neighbours}
        return {j: weight / total if total > 0 else 0.0 for j, weight in former.items()}

    def switch(self, neighbours: Sequence[P], memory: PeerMemory) -> None:
        """Take up new neighbours; newcomers start at ``memory.newcomer`` or, if remembered, where they were."""
        staying: list[P] = [j for j in neighbours if j in self.neighbours]
        incumbents = [self.own.weight, *(self.known[j].weight for j in staying)]
        fresh = memory.newcomer * sum(incumbents) / len(incumbents)
        for j in self.neighbours:
            if j not in neighbours:
                if memory.remember:  # the weight stays, the copy of its rows does not
                    self.known[j].publication = self.known[j].pulled_at = -1
                else:
                    del self.known[j]
        for j, link in self.known.items():
            if j not in self.neighbours:
                link.weight += memory.fade * (fresh - link.weight)
        for j in neighbours:
            if j not in self.known:
                self.known[j] = Link(fresh)
        self.neighbours = list(neighbours)

    def listen(self, others: Sequence[P]) -> None:
        """Pull the tallies of these peers from now on; those of the ones that are new, from the first on."""
        changed: list[P] = [j for j in self.others if j not in others]
        changed += [j for j in others if j not in self.others]
        for j in changed:
            ear = self.ears.setdefault(j, Ear())
            ear.publication = ear.pulled_at = -1
        self.others = list(others)

    def restart(self, memory: PeerMemory) -> None:
        """Give the edge's own model and its neighbours the weights that they started with."""
        self.own = Link(memory.start)
        for j in self.neighbours:
            self.known[j].weight, self.known[j].numbers = memory.start, {}

    def drop(self, peer: P) -> None:
        """Remove a peer; the weight of a neighbour is 0 from now on, even if it is chosen again."""
        if peer in self.neighbours:
            self.known[peer] = Link(0.0)
        self.neighbours = [j for j in self.neighbours if j != peer]
        self.others = [j for j in self.others if j != peer]
        self.ears.pop(peer, None)


def stack(
    links: Sequence[Links[Any]], width: int, memory: PeerMemory, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Weights:
    """Raw weights and numbers of some edges as tensors [g, 1 + width]: own first, neighbours in order, then zeros."""
    starts = list(memory.numbers.items())
    columns = 1 + len(starts)
    rows = []
    for each in links:
        chain = [each.own, *(each.known[j] for j in each.neighbours)]
        padding = [(0.0,) * columns] * (1 + width - len(chain))
        rows.append([(x.weight, *(x.numbers.get(name, start) for name, start in starts)) for x in chain] + padding)
    raw, *numbers = torch.tensor(rows, dtype=dtype, device=device).view(len(rows), 1 + width, columns).unbind(2)
    return Weights(raw.contiguous(), {name: x.contiguous() for (name, _), x in zip(starts, numbers, strict=True)})


def unstack(weights: Weights, links: Sequence[Links[Any]]) -> None:
    """Write weights and numbers back."""
    names = list(weights.numbers)
    columns = (weights.raw.tolist(), *(weights.numbers[name].tolist() for name in names))
    for each, raw, *numbers in zip(links, *columns, strict=True):
        for place, link in enumerate([each.own, *(each.known[j] for j in each.neighbours)]):
            link.weight = raw[place]
            link.numbers = {name: column[place] for name, column in zip(names, numbers, strict=True)}
