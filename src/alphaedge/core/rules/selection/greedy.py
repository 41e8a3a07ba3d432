"""The paper's selection rule: greedy, by two-hop neighbours.

With the weights of every edge normalised to sum 1, an edge k that is not a neighbour of edge i scores

    s_ik = sum over j in E_i with k in E_j of a_ij a_jk                                     (paper, section III-C)

and every m aggregations the K' neighbours with the smallest weights give way to the K' best-scored edges.
Where two-hop knowledge offers fewer than K', random edges take the places: standing still finds nobody.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from alphaedge.core.selection import P, View, draw_peers
from alphaedge.errors import check_number


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
        return draw_peers(candidates, self.peers, {edge}, rng)

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
        promising = promising + draw_peers(view.candidates, 2 * self.peers, known, rng, shuffled=True)
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
