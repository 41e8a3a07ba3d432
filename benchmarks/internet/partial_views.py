"""Partial views: every edge knows a few others, and swaps some of them with another edge now and then (Cyclon).

Each period, an edge asks its oldest entry, gives it a few entries and itself, and gets as many back. An entry that does
not answer is dropped. It goes to a small drawer, from which the edge tries one in each period, as the project's gossip
tries one edge that is down: otherwise a long partition would never heal.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from benchmarks.internet.worlds import NOBODY, Flags, Ints

VIEW: Final = 24  # edges that an edge knows
SWAPPED: Final = 8  # entries in a message
DRAWER: Final = 8  # entries that did not answer
PASSES: Final = 3  # an edge that is busy with another one is asked again


@final
@dataclass
class PartialViews:
    """The views of n edges.

    known, age: entries of each edge, and how many periods ago an entry came from its edge, [n, VIEW]. generation: of
    each edge; another one has taken its place when it grows. stamp: the generation that an entry is about. drawer,
    drawer_stamp: those that did not answer.
    """

    known: Ints
    age: Ints
    stamp: Ints
    drawer: Ints
    drawer_stamp: Ints
    generation: Ints

    @classmethod
    def start(cls, edges: int, rng: np.random.Generator) -> "PartialViews":
        """Random views."""
        known = rng.integers(edges, size=(edges, VIEW), dtype=np.int32)
        known[known == np.arange(edges)[:, None]] = NOBODY  # an edge does not ask itself
        zeros = np.zeros((edges, VIEW), np.int32)
        drawer = np.full((edges, DRAWER), NOBODY, np.int32)
        return cls(known, zeros, zeros.copy(), drawer, np.zeros_like(drawer), np.zeros(edges, np.int32))

    def replace(self, edges: Ints, rng: np.random.Generator) -> None:
        """Let edges disappear, and new ones join in their places: each begins with the view of an edge it knows."""
        self.generation[edges] += 1
        hosts = rng.integers(len(self.known), size=len(edges))
        self.known[edges], self.stamp[edges] = self.known[hosts], self.stamp[hosts]
        self.age[edges], self.drawer[edges] = 0, NOBODY

    def dead(self) -> float:
        """Which part of all entries is about edges that are gone."""
        there = self.known != NOBODY
        return float((there & (self.generation[self.known] != self.stamp)).sum() / there.sum())

    def crossing(self, side: Ints) -> float:
        """Which part of all entries is about edges on the other side."""
        there = self.known != NOBODY
        return float((there & (side[self.known] != side[:, None])).sum() / there.sum())

    def shuffle(self, side: Ints, rng: np.random.Generator) -> None:
        """One period of all edges. side: edges on different sides do not reach each other."""
        self.age += 1
        asking = rng.permutation(len(self.known)).astype(np.int32)
        for _ in range(PASSES):
            place = np.where(self.known[asking] == NOBODY, -1, self.age[asking]).argmax(1)
            asked, stamp = self.known[asking, place], self.stamp[asking, place]
            answers = (asked != NOBODY) & (side[asked] == side[asking]) & (self.generation[asked] == stamp)
            silent = ~answers & (asked != NOBODY)
            self._drop(asking[silent], place[silent], rng)
            ready = np.flatnonzero(answers)
            ready = ready[_in_no_other_pair(asking[ready], asked[ready], len(self.known))]
            self._swap(asking[ready], asked[ready], place[ready], rng)
            busy = np.ones(len(asking), dtype=bool)
            busy[ready] = False
            asking = asking[busy]
        self._try_drawers(side, rng)

    def _drop(self, edges: Ints, place: Ints, rng: np.random.Generator) -> None:
        slot = rng.integers(DRAWER, size=len(edges))
        self.drawer[edges, slot] = self.known[edges, place]
        self.drawer_stamp[edges, slot] = self.stamp[edges, place]
        self.known[edges, place] = NOBODY

    def _try_drawers(self, side: Ints, rng: np.random.Generator) -> None:
        """Each edge tries one that did not answer; one that does now takes the place of a random entry."""
        edges, slot = np.arange(len(self.known)), rng.integers(DRAWER, size=len(self.known))
        tried, stamp = self.drawer[edges, slot], self.drawer_stamp[edges, slot]
        back = (tried != NOBODY) & (side[tried] == side) & (self.generation[tried] == stamp)
        back &= ~(self.known == tried[:, None]).any(1)
        edges, place = edges[back], rng.integers(VIEW, size=int(back.sum()))
        self.known[edges, place], self.stamp[edges, place], self.age[edges, place] = tried[back], stamp[back], 0
        self.drawer[edges, slot[back]] = NOBODY

    def _swap(self, one: Ints, other: Ints, place: Ints, rng: np.random.Generator) -> None:
        """Pairs of edges swap entries. place: where the other stands in the view of the one, which gives itself."""
        order = rng.random((len(one), VIEW))
        order[np.arange(len(one)), place] = -1.0
        ours = np.argsort(order, axis=1)[:, :SWAPPED]
        theirs = np.argsort(rng.random((len(one), VIEW)), axis=1)[:, :SWAPPED]
        sent = [part[one[:, None], ours] for part in (self.known, self.stamp, self.age)]
        sent[0][:, 0], sent[1][:, 0], sent[2][:, 0] = one, self.generation[one], 0
        got = [part[other[:, None], theirs] for part in (self.known, self.stamp, self.age)]
        self._take(one, ours, *got)
        self._take(other, theirs, *sent)

    def _take(self, edges: Ints, places: Ints, entries: Ints, stamps: Ints, ages: Ints) -> None:
        """Put entries into the places of what was given away, unless an edge knows them or is one of them.

        Entries keep their age, so that one about an edge that is gone is soon somebody's oldest.
        """
        for column in range(SWAPPED):
            entry, at = entries[:, column], places[:, column]
            new: Flags = (entry != NOBODY) & (entry != edges) & ~(self.known[edges] == entry[:, None]).any(1)
            some, where = edges[new], at[new]
            self.known[some, where], self.stamp[some, where] = entry[new], stamps[new, column]
            self.age[some, where] = ages[new, column]


def _in_no_other_pair(one: Ints, other: Ints, edges: int) -> Flags:
    """Which pairs have no edge in common with an earlier pair."""
    number = np.arange(len(one))
    first = np.full(edges, len(one))
    np.minimum.at(first, one, number)
    np.minimum.at(first, other, number)
    free: Flags = (first[one] == number) & (first[other] == number)
    return free
