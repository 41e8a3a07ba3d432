"""Step 3 of the method: greedy peer selection by two-hop neighbours.

With the weights of every edge normalised to sum 1, an edge i that is not yet its neighbour's neighbour k scores

    s_ik = sum over j in E_i with k in E_j of a_ij a_jk                                     (paper, section III-C)

and every m aggregations the K' neighbours with the smallest weights give way to the K' best-scored edges.
Where two-hop knowledge offers fewer than K', random edges take the places: standing still finds nobody.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, final

from alphaedge.errors import check_number

P = TypeVar("P", int, str)  # how edges are called: by numbers in a simulation, by names in life


@final
@dataclass(frozen=True)
class View(Generic[P]):
    """What an edge knows when it chooses.

    candidates: the edges it knows and may fetch from (it never chooses itself).
    shares: its own normalised weight for each neighbour. topology: the same of other edges, as far as known.
    remembered: the weight it had for former neighbours, on the scale of ``shares``.
    """

    edge: P
    neighbours: Sequence[P]
    candidates: Sequence[P]
    shares: Mapping[P, float]
    topology: Mapping[P, Mapping[P, float]]
    remembered: Mapping[P, float] = field(default_factory=dict)


def two_hop_scores(view: View[P]) -> dict[P, float]:
    """s_ik for every candidate k that is no neighbour and that some neighbour has a positive weight for."""
    scores: dict[P, float] = {}
    taken = {view.edge, *view.neighbours}
    for j in view.neighbours:
        for k, weight in view.topology.get(j, {}).items():
            if k not in taken and k in view.candidates and weight > 0 and view.shares.get(j, 0.0) > 0:
                scores[k] = scores.get(k, 0.0) + view.shares[j] * weight
    return scores


@final
@dataclass(frozen=True)
class Greedy:
    """The paper's rule: K neighbours, of which the K' weakest are replaced every m aggregations.

    ``keep_better``: an edge that is remembered as weaker than the neighbour it would replace is passed over. The
    paper replaces unconditionally, so an edge with K good peers gives one of them up each time.
    ``useless``: neighbours whose share is below this give way too, however many they are (the paper: K' and no more).
    ``two_hop``: without it newcomers are drawn at random, to see what the neighbours' knowledge is worth.
    """

    peers: int = 5
    replace: int = 1
    every: int = 1
    keep_better: bool = True
    useless: float = 0.02
    two_hop: bool = True

    def __post_init__(self) -> None:
        check_number("useless", self.useless, low=0, high=1)
        check_number("peers", self.peers, low=1, whole=True)
        check_number("replace", self.replace, low=0, whole=True)
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """K random peers to start with."""
        return _draw(candidates, self.peers, {edge}, rng)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """The neighbours until the next selection."""
        if len(view.candidates) <= self.peers + 1:
            everybody = sorted(set(view.candidates) - {view.edge})
            if len(everybody) <= self.peers:
                return everybody
        staying = [j for j in view.neighbours if j in view.candidates and j != view.edge][: self.peers]
        scores = two_hop_scores(view) if self.two_hop else {}
        # Ties are broken at random, or else low numbers would be everybody's favourites.
        promising = sorted(scores, key=lambda k: (-scores[k], rng.random()))
        known = {view.edge}.union(view.neighbours, promising)
        promising = promising + _draw(view.candidates, 2 * self.peers, known, rng, shuffled=True)
        newcomers = promising[: self.peers - len(staying)]
        promising = promising[len(newcomers) :]
        weakest = sorted(staying, key=lambda j: (view.shares.get(j, 0.0), rng.random()))
        leaving = max(self.replace, sum(view.shares.get(j, 0.0) < self.useless for j in staying))
        for leaver in weakest[:leaving]:
            better = [k for k in promising if self._worth(view, k, leaver)]
            if better:
                promising.remove(better[0])
                staying.remove(leaver)
                newcomers.append(better[0])
        return staying + newcomers

    def _worth(self, view: View[P], newcomer: P, leaver: P) -> bool:
        if not self.keep_better or newcomer not in view.remembered:
            return True
        return view.remembered[newcomer] > view.shares.get(leaver, 0.0)


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
        return _draw(candidates, self.peers, {edge}, rng)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """K other random peers."""
        return _draw(view.candidates, self.peers, {view.edge}, rng)


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
        return _draw(candidates, self.peers, {edge}, rng)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """The same peers, as long as they are there."""
        staying = [j for j in view.neighbours if j in view.candidates]
        return staying + _draw(view.candidates, self.peers - len(staying), {view.edge}.union(staying), rng)


@final
@dataclass(frozen=True)
class Everybody:
    """All edges are neighbours."""

    every: int = 1

    def __post_init__(self) -> None:
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """All of them."""
        return sorted(set(candidates) - {edge})

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """All of them."""
        return sorted(set(view.candidates) - {view.edge})


@final
@dataclass(frozen=True)
class Nobody:
    """No peers."""

    every: int = 1

    def __post_init__(self) -> None:
        check_number("select every", self.every, low=1, whole=True)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        """None."""
        return []

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        """None."""
        return []


Selection = Greedy | Random | Fixed | Everybody | Nobody


def _draw(
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
