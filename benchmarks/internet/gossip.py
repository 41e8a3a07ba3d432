"""How news spread through a full directory: the project's gossip without its messages.

A full view of 100,000 edges at each of 100,000 edges is 10^10 entries. So a sample of edges is followed exactly: for
each of these origins, which of its versions every edge knows. All edges take part in every round. In a round an edge
exchanges with two edges that it takes for alive and with one that it takes for down, if there is one
(``alphaedge.edge.directory.exchange``). After an exchange both know the newer version of every origin, because messages
of both directions are part of it.

Messages take no time: edges act one after the other, so that news pass through several edges in a round. With
``lockstep`` an exchange takes a whole round, and news pass one edge in a round. Real networks are in between. A test
drives the real code beside this one.
"""

from typing import final

import numpy as np

from alphaedge.edge.directory.exchange import DOWN_CONTACTS, LIVE_CONTACTS
from benchmarks.internet.worlds import Flags, Floats, Ints


@final
class Gossip:
    """The versions that n edges know of some origins.

    contacts: edges that are alive with which an edge exchanges in a round. versions: [n, origins]. heard: the round in
    which an edge last heard something new of an origin. received: how often an edge learned of a newer version, all
    edges together.
    """

    def __init__(
        self,
        edges: int,
        origins: Ints,
        rng: np.random.Generator,
        *,
        lockstep: bool = False,
        contacts: int = LIVE_CONTACTS,
    ) -> None:
        self.edges, self.origins, self.lockstep, self.contacts = edges, origins, lockstep, contacts
        self.versions = np.zeros((edges, len(origins)), np.int32)
        self.heard = np.zeros((edges, len(origins)), np.int32)
        self.round = self.received = 0
        self._rng, self._order = rng, rng.permutation(edges).tolist()
        self._side: Ints | None = None  # of each edge, while edges take those on the other side for down
        self._connected = True

    def announce(self) -> None:
        """Let each origin have a newer version."""
        column = np.arange(len(self.origins))
        self.versions[self.origins, column] += 1
        self.heard[self.origins, column] = self.round

    def replace(self, edges: Ints) -> None:
        """Let edges disappear, and new ones that know nothing yet join in their places. Origins stay."""
        gone = np.setdiff1d(edges, self.origins)
        self.versions[gone], self.heard[gone] = 0, self.round

    def known(self) -> Floats:
        """Which part of all edges knows the newest version of each origin."""
        newest = self.versions[self.origins, np.arange(len(self.origins))]
        share: Floats = (self.versions == newest).mean(axis=0)
        return share

    def silent(self, rounds: float) -> float:
        """Which part of all views of an origin has heard nothing new of it for longer than so many rounds."""
        return float((self.round - self.heard > rounds).mean())

    def split(self, side: Ints) -> None:
        """Cut the fleet into two sides. Everybody notices at once."""
        self._side, self._connected = side, False

    def heal(self) -> None:
        """Connect the sides again. Edges still take the other side for down: only one contact in a round crosses."""
        self._connected = True

    def run_round(self) -> None:
        """One round of all edges."""
        self.round += 1
        contacts = self._draw(self.contacts, other_side=False)
        if self._side is not None and self._connected:
            contacts = np.concatenate([contacts, self._draw(DOWN_CONTACTS, other_side=True)], axis=1)
        if self.lockstep:
            self._exchange_all(contacts)
            return
        places = contacts.tolist()
        for edge in self._order:
            for other in places[edge]:
                self._exchange(edge, other)

    def _draw(self, count: int, *, other_side: bool) -> Ints:
        """Draw different contacts of each edge, on its own side or on the other one."""
        drawn = self._rng.integers(self.edges, size=(self.edges, count), dtype=np.int32)
        while np.any(unfit := self._is_unfit(drawn, other_side=other_side)):
            drawn[unfit] = self._rng.integers(self.edges, size=int(unfit.sum()), dtype=np.int32)
        return drawn

    def _is_unfit(self, drawn: Ints, *, other_side: bool) -> Flags:
        unfit: Flags = drawn == np.arange(self.edges)[:, None]
        for column in range(1, drawn.shape[1]):
            unfit[:, column] |= (drawn[:, :column] == drawn[:, column, None]).any(1)
        if self._side is not None:
            unfit |= (self._side[drawn] != self._side[:, None]) != other_side
        return unfit

    def _exchange(self, one: int, other: int) -> None:
        mine, theirs = self.versions[one], self.versions[other]
        newer = theirs - mine
        if not newer.any():
            return
        self.heard[one][newer > 0] = self.heard[other][newer < 0] = self.round
        self.received += int(np.count_nonzero(newer))
        np.maximum(mine, theirs, out=mine)
        theirs[:] = mine

    def _exchange_all(self, contacts: Ints) -> None:
        before, after = self.versions, self.versions.copy()
        for contact in contacts.T:
            np.maximum(after, before[contact], out=after)
            np.maximum.at(after, contact, before)
        newer = after > before
        self.heard[newer] = self.round
        self.received += int(np.count_nonzero(newer))
        self.versions = after
