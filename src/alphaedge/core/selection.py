"""Step 3 of the method: greedy peer selection by two-hop neighbours.

With the weights of every edge normalised to sum 1, an edge i that is not yet its neighbour's neighbour k scores

    s_ik = sum over j in E_i with k in E_j of a_ij a_jk                                     (paper, section III-C)

and every m aggregations the K' neighbours with the smallest weights give way to the K' best-scored edges.
Where two-hop knowledge offers fewer than K', random edges take the places: standing still finds nobody.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from alphaedge.errors import check_number

Topology = Mapping[int, Mapping[int, float]]


@final
@dataclass(frozen=True)
class View:
    """What an edge knows when it chooses.

    candidates: the edges it knows and may fetch from, itself not among them.
    shares: its own normalised weight for each neighbour. topology: the same of other edges, as far as known.
    """

    edge: int
    neighbours: Sequence[int]
    candidates: Collection[int]
    shares: Mapping[int, float]
    topology: Topology
    remembered: Mapping[int, float] = field(default_factory=dict)


def two_hop_scores(view: View) -> dict[int, float]:
    """s_ik for every candidate k that is no neighbour and that some neighbour has a positive weight for."""
    scores: dict[int, float] = {}
    outside = set(view.candidates) - set(view.neighbours) - {view.edge}
    for j in view.neighbours:
        for k, weight in view.topology.get(j, {}).items():
            if k in outside and weight > 0 and view.shares.get(j, 0.0) > 0:
                scores[k] = scores.get(k, 0.0) + view.shares[j] * weight
    return scores


@final
@dataclass(frozen=True)
class Greedy:
    """The paper's rule: K neighbours, of which K' are replaced every m aggregations."""

    peers: int = 5
    replace: int = 1
    every: int = 1
    hold: bool = False

    def __post_init__(self) -> None:
        check_number("peers", self.peers, low=1, whole=True)
        check_number("replace", self.replace, low=0, whole=True)
        check_number("select every", self.every, low=1, whole=True)

    def first(self, candidates: Collection[int], rng: random.Random) -> list[int]:
        """K random peers to start with."""
        return _sample(candidates, self.peers, rng)

    def choose(self, view: View, rng: random.Random) -> list[int]:
        """The neighbours until the next selection."""
        candidates = set(view.candidates) - {view.edge}
        if len(candidates) <= self.peers:
            return sorted(candidates)
        allowed = [j for j in view.neighbours if j in candidates][: self.peers]
        outside = candidates - set(view.neighbours)
        places = self.peers - len(allowed)
        leaving = min(self.replace, len(allowed), max(0, len(outside) - places))
        # Ties are broken at random, or else low numbers would be everybody's favourites.
        weakest = sorted(allowed, key=lambda j: (view.shares.get(j, 0.0), rng.random()))[:leaving]
        scores = two_hop_scores(view)
        if self.hold:
            better = lambda k, j: k not in view.remembered or view.remembered[k] > view.shares.get(j, 0.0)
            fresh=[k for k in outside if k not in view.remembered]
            kept=[]
            for j in weakest:
                if not any(better(k,j) for k in outside): continue
                kept.append(j)
            weakest=kept; leaving=len(kept)
            lim=min([view.shares.get(j,0.0) for j in weakest],default=0)
            good=[k for k in outside if k not in view.remembered or view.remembered[k] > lim]
            scores={k:v for k,v in scores.items() if k in good}
            outside=set(good) if leaving else outside
        staying = [j for j in allowed if j not in weakest]
        ranked = sorted(scores, key=lambda k: (-scores[k], rng.random()))
        newcomers = ranked[: places + leaving]
        missing = places + leaving - len(newcomers)
        return staying + newcomers + _sample(outside - set(newcomers), missing, rng)


@final
@dataclass(frozen=True)
class Random:
    """K random peers, drawn anew at every m-th aggregation."""

    peers: int = 5
    every: int = 1

    def __post_init__(self) -> None:
        check_number("peers", self.peers, low=1, whole=True)
        check_number("select every", self.every, low=1, whole=True)

    def first(self, candidates: Collection[int], rng: random.Random) -> list[int]:
        """K random peers."""
        return _sample(candidates, self.peers, rng)

    def choose(self, view: View, rng: random.Random) -> list[int]:
        """K other random peers."""
        return _sample(set(view.candidates) - {view.edge}, self.peers, rng)


@final
@dataclass(frozen=True)
class Fixed:
    """K random peers, drawn once; one that leaves is replaced at random."""

    peers: int = 5
    every: int = 1

    def __post_init__(self) -> None:
        check_number("peers", self.peers, low=1, whole=True)

    def first(self, candidates: Collection[int], rng: random.Random) -> list[int]:
        """K random peers."""
        return _sample(candidates, self.peers, rng)

    def choose(self, view: View, rng: random.Random) -> list[int]:
        """The same peers, as long as they are there."""
        candidates = set(view.candidates) - {view.edge}
        staying = [j for j in view.neighbours if j in candidates]
        return staying + _sample(candidates - set(staying), self.peers - len(staying), rng)


@final
@dataclass(frozen=True)
class Everybody:
    """All edges are neighbours."""

    every: int = 1

    def first(self, candidates: Collection[int], rng: random.Random) -> list[int]:
        """All of them."""
        return sorted(candidates)

    def choose(self, view: View, rng: random.Random) -> list[int]:
        """All of them."""
        return sorted(set(view.candidates) - {view.edge})


@final
@dataclass(frozen=True)
class Nobody:
    """No peers."""

    every: int = 1

    def first(self, candidates: Collection[int], rng: random.Random) -> list[int]:
        """None."""
        return []

    def choose(self, view: View, rng: random.Random) -> list[int]:
        """None."""
        return []


Selection = Greedy | Random | Fixed | Everybody | Nobody


def _sample(candidates: Collection[int], count: int, rng: random.Random) -> list[int]:
    ordered = sorted(candidates)
    if count >= len(ordered):
        return ordered
    return sorted(rng.sample(ordered, max(0, count)))
