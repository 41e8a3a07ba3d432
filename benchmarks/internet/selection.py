"""Peer selection for a whole fleet at once: AlphaEdge's greedy rule and the random one, in O(n K^2) per round.

The rule is ``alphaedge.core.rules.selection.greedy.Greedy`` with its bookkeeping in ``alphaedge.core.links.Links``,
written for arrays; a test compares the two edge by edge. There are two differences. An edge remembers the weights of
the last ``MEMORY`` former neighbours, not of all. And random candidates that can't be used are not drawn again.

Edges choose in lock-step: each reads what the others announced before the round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from alphaedge.core.aggregation import PeerMemory
from alphaedge.core.rules.selection.greedy import Greedy
from benchmarks.internet.worlds import NOBODY, Flags, Floats, Ints

MEMORY: Final = 32  # former neighbours whose weights an edge remembers
BLOCK: Final = 8_192  # edges that are computed at once, so that arrays stay in the cache
TIE: Final = 1e-9  # how much chance adds to a score, to break ties

Draw = Callable[[Ints, int, np.random.Generator], Ints]
"""Draws so many random candidates for each of some edges: from all edges, or from what an edge knows."""


@final
@dataclass(frozen=True)
class Variant:
    """How a selection differs from the project's rule, which is the default.

    announce_untried: whether newcomers count in what an edge announces before it has ever weighed them. pullers:
    whether an edge that pulls from another is a candidate of it, preferred to all others: one in each round, drawn in
    proportion to the share that it announces. explore: the part of selections that prefer random edges to two-hop
    neighbours.
    """

    announce_untried: bool = True
    pullers: bool = False
    explore: float = 0.0


AS_IT_IS: Final = Variant()


@final
@dataclass
class Fleet:
    """The peers of n edges.

    neighbours, weights: of each edge, [n, K], with ``NOBODY`` for an empty place. The own weight is 1. former,
    remembered: former neighbours and their weights, [n, M]. next_slot: where the next one goes. tried: whether an edge
    has weighed a neighbour. side: of a partition, on which an edge is.
    """

    neighbours: Ints
    weights: Floats
    former: Ints
    remembered: Floats
    next_slot: Ints
    tried: Flags
    side: Ints

    @classmethod
    def start(
        cls, edges: int, rule: Greedy, memory: PeerMemory, draw: Draw, rng: np.random.Generator, remembers: int = MEMORY
    ) -> "Fleet":
        """K random neighbours for each edge. remembers: former neighbours at most."""
        fleet = cls(
            np.full((edges, rule.peers), NOBODY, np.int32),
            np.full((edges, rule.peers), memory.start),
            np.full((edges, remembers), NOBODY, np.int32),
            np.zeros((edges, remembers)),
            np.zeros(edges, np.int32),
            np.ones((edges, rule.peers), dtype=bool),
            np.zeros(edges, np.int32),
        )
        fleet.join(np.arange(edges, dtype=np.int32), memory, draw, rng)
        return fleet

    def join(self, edges: Ints, memory: PeerMemory, draw: Draw, rng: np.random.Generator) -> None:
        """Let edges begin with random neighbours and nothing to remember."""
        drawn = draw(edges, 3 * self.neighbours.shape[1], rng)
        drawn[(drawn == edges[:, None]) | _repeated(drawn)] = NOBODY
        order = np.argsort(drawn == NOBODY, axis=1, kind="stable")[:, : self.neighbours.shape[1]]
        self.neighbours[edges], self.weights[edges] = np.take_along_axis(drawn, order, 1), memory.start
        self.former[edges], self.tried[edges] = NOBODY, True

    def replace(self, edges: Ints, memory: PeerMemory, draw: Draw, rng: np.random.Generator) -> None:
        """Let edges disappear, and new ones of the same clusters join in their places."""
        gone = np.zeros(len(self.neighbours), dtype=bool)
        gone[edges] = True
        for known in (self.neighbours, self.former):
            known[gone[known] & (known != NOBODY)] = NOBODY
        self.join(edges, memory, draw, rng)

    def shares(self) -> Floats:
        """What each edge announces: its weights, normalised to sum 1 together with its own."""
        there = np.where(self.neighbours == NOBODY, 0.0, self.weights)
        shares: Floats = there / (1 + there.sum(1, keepdims=True))
        return shares

    def planted(self, cluster: Ints) -> float:
        """Which part of all places among neighbours is taken by an edge of the same cluster."""
        found = (cluster[self.neighbours] == cluster[:, None]) & (self.neighbours != NOBODY)
        return float(found.mean())


def announce(fleet: Fleet, variant: Variant) -> Floats:
    """What edges announce at the beginning of a round, with the weights of the last one."""
    shares = fleet.shares()
    return shares if variant.announce_untried else np.where(fleet.tried, shares, 0.0)


def select(
    fleet: Fleet,
    announced: Floats,
    rule: Greedy,
    memory: PeerMemory,
    draw: Draw,
    rng: np.random.Generator,
    variant: Variant = AS_IT_IS,
) -> None:
    """One selection of all edges. announced: everybody's shares as of before the round."""
    neighbours, shares = fleet.neighbours.copy(), fleet.shares()
    pullers = draw_pullers(neighbours, announced, rng) if variant.pullers else None
    for start in range(0, len(neighbours), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(neighbours)), dtype=np.int32)
        candidates = find_candidates(rows, neighbours, shares, announced, fleet.side, rule, draw, rng, variant)
        if pullers is not None:
            candidates = _prefer(pullers[rows], candidates, rows, neighbours, fleet.side)
        order = np.argsort(candidates == NOBODY, axis=1, kind="stable")
        chosen = _choose(fleet, rows, shares[rows], np.take_along_axis(candidates, order, 1), rule)
        _switch(fleet, rows, chosen, memory)


def select_randomly(fleet: Fleet, draw: Draw, rng: np.random.Generator) -> None:
    """One selection of all edges by the rule ``Random``: K edges that are drawn anew."""
    edges, peers = fleet.neighbours.shape
    rows = np.arange(edges, dtype=np.int32)
    drawn = draw(rows, 3 * peers, rng)
    drawn[(drawn == rows[:, None]) | (fleet.side[drawn] != fleet.side[rows, None]) | _repeated(drawn)] = NOBODY
    order = np.argsort(drawn == NOBODY, axis=1, kind="stable")[:, :peers]
    fleet.neighbours = np.take_along_axis(drawn, order, 1)


def find_candidates(
    rows: Ints,
    neighbours: Ints,
    shares: Floats,
    announced: Floats,
    side: Ints,
    rule: Greedy,
    draw: Draw,
    rng: np.random.Generator,
    variant: Variant,
) -> Ints:
    """Edges that each row might choose, the best first: two-hop neighbours by score, then random ones."""
    near = neighbours[rows]
    found = neighbours[near].reshape(len(rows), -1)
    score = (np.where(near == NOBODY, 0.0, shares[rows])[:, :, None] * announced[near]).reshape(found.shape)
    useless = (found == NOBODY) | (found == rows[:, None]) | (score <= 0) | (side[found] != side[rows, None])
    useless |= _is_among(found, near)
    if not rule.two_hop:
        useless[:] = True
    found, score = _sum_by_edge(np.where(useless, NOBODY, found), score)
    rank = -score * (1 + TIE * rng.random(score.shape))
    found = np.take_along_axis(found, np.argsort(rank, axis=1), 1)
    draws = 2 * rule.peers * (4 if side.any() else 1)  # in a partition, about half of them can't be reached
    drawn = draw(rows, draws, rng)
    unfit = (drawn == rows[:, None]) | (side[drawn] != side[rows, None]) | _is_among(drawn, near)
    unfit |= _is_among(drawn, found) | _repeated(drawn)
    drawn = np.where(unfit, NOBODY, drawn)
    candidates = np.concatenate([found, drawn], axis=1)
    if variant.explore:
        exploring = rng.random(len(rows)) < variant.explore
        candidates[exploring] = np.concatenate([drawn, found], axis=1)[exploring]
    return candidates


def draw_pullers(neighbours: Ints, announced: Floats, rng: np.random.Generator) -> Ints:
    """For each edge one of those that pull from it, drawn in proportion to their shares, or ``NOBODY``."""
    pulled = np.flatnonzero((neighbours != NOBODY) & (announced > 0))
    race = rng.exponential(size=len(pulled)) / announced.ravel()[pulled]
    pulled = pulled[np.argsort(-race)]  # of several for one edge the last one is kept: the smallest
    pullers = np.full(len(neighbours), NOBODY, np.int32)
    pullers[neighbours.ravel()[pulled]] = pulled // neighbours.shape[1]
    return pullers


def _prefer(first: Ints, candidates: Ints, rows: Ints, neighbours: Ints, side: Ints) -> Ints:
    """Put one candidate of each row before the others, if it can be chosen."""
    fits = (first != NOBODY) & (side[first] == side[rows]) & ~_is_among(first[:, None], neighbours[rows])[:, 0]
    first = np.where(fits, first, NOBODY)
    again = (candidates == first[:, None]) & fits[:, None]
    return np.concatenate([first[:, None], np.where(again, NOBODY, candidates)], axis=1)


def _choose(fleet: Fleet, rows: Ints, shares: Floats, candidates: Ints, rule: Greedy) -> Ints:
    """Choose the neighbours of each row, [rows, K]: who stays keeps its place. candidates: nobody comes last.

    Places are filled in turn: first the empty ones, then those of the neighbours that give way, weakest first. A
    candidate that was remembered as weaker than one of those is weaker than those after it, too, so that each row goes
    through its candidates once.
    """
    chosen = fleet.neighbours[rows]
    empty = (chosen == NOBODY) | (fleet.side[chosen] != fleet.side[rows, None])
    chosen[empty] = NOBODY
    turns = np.argsort(np.where(empty, -1.0, shares), axis=1)
    leaving = np.maximum(rule.replace, (~empty & (shares < rule.useless)).sum(1)) + empty.sum(1)
    scale = 1 / (1 + np.where(fleet.neighbours[rows] == NOBODY, 0.0, fleet.weights[rows]).sum(1))
    position, offered = np.zeros(len(rows), dtype=np.int64), (candidates != NOBODY).sum(1)
    for turn in range(chosen.shape[1]):
        waiting = np.flatnonzero(turn < leaving)
        while len(waiting := waiting[position[waiting] < offered[waiting]]):
            place = turns[waiting, turn]
            one = candidates[waiting, position[waiting]]
            position[waiting] += 1
            fits = empty[waiting, place]
            tested = np.flatnonzero(~fits)
            fits[tested] = _is_worth(
                fleet, rows[waiting[tested]], one[tested], shares[waiting, place][tested], scale[waiting[tested]], rule
            )
            chosen[waiting[fits], place[fits]] = one[fits]
            waiting = waiting[~fits]
    return chosen


def _is_worth(fleet: Fleet, rows: Ints, one: Ints, share: Floats, scale: Floats, rule: Greedy) -> Flags:
    """Whether a candidate is unknown, or remembered as better than a neighbour of that share."""
    matches = fleet.former[rows] == one[:, None]
    remembered = (fleet.remembered[rows] * matches).sum(1) * scale
    worth: Flags = ~matches.any(1) | (remembered > share) | (not rule.keep_better)
    return worth


def _switch(fleet: Fleet, rows: Ints, chosen: Ints, memory: PeerMemory) -> None:
    """Take up new neighbours, and remember the former ones (``Links.switch``)."""
    before, weights = fleet.neighbours[rows], fleet.weights[rows]
    former, remembered, next_slot = fleet.former[rows], fleet.remembered[rows], fleet.next_slot[rows]
    stays = (before == chosen) & (chosen != NOBODY)
    fresh = memory.newcomer * (1 + (weights * stays).sum(1)) / (1 + stays.sum(1))
    remembered += memory.fade * (fresh[:, None] - remembered)
    for place in range(chosen.shape[1]):
        new = ~stays[:, place]
        matches = (former == chosen[:, place, None]) & (former != NOBODY) & new[:, None]
        known = matches.any(1)
        start = np.where(known, (remembered * matches).sum(1), fresh)
        former[matches] = NOBODY
        left = new & (before[:, place] != NOBODY)
        some, slot = np.flatnonzero(left), next_slot[left] % former.shape[1]  # the oldest one is forgotten
        former[some, slot], remembered[some, slot] = before[left, place], weights[left, place]
        next_slot[left] += 1
        weights[new, place] = start[new]
    fleet.tried[rows] = stays
    fleet.neighbours[rows], fleet.weights[rows] = chosen, weights
    fleet.former[rows], fleet.remembered[rows], fleet.next_slot[rows] = former, remembered, next_slot


def _sum_by_edge(found: Ints, score: Floats) -> tuple[Ints, Floats]:
    """Add up the scores of an edge that a row has found several times; each edge once, with 0 for nobody."""
    order = np.argsort(found, axis=1)
    found, score = np.take_along_axis(found, order, 1), np.take_along_axis(score, order, 1)
    first = np.ones(found.shape, dtype=bool)
    first[:, 1:] = found[:, 1:] != found[:, :-1]
    starts = np.flatnonzero(first.ravel())
    total = np.zeros(found.size)
    total[starts] = np.add.reduceat(score.ravel(), starts)
    kept = first & (found != NOBODY)
    return np.where(kept, found, NOBODY), np.where(kept, total.reshape(found.shape), 0.0)


def _is_among(edges: Ints, others: Ints) -> Flags:
    """Which edges [n, a] are among the others [n, b] of the same row."""
    among = np.zeros(edges.shape, dtype=bool)
    for place in range(others.shape[1]):
        among |= edges == others[:, place, None]
    return among


def _repeated(edges: Ints) -> Flags:
    """Which edges stand in the same row before."""
    repeated = np.zeros(edges.shape, dtype=bool)
    for place in range(1, edges.shape[1]):
        repeated[:, place] = (edges[:, :place] == edges[:, place, None]).any(1)
    return repeated
