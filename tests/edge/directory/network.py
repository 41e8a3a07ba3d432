"""Edges that gossip in one process without I/O: a test decides when a round is, who is linked and what clocks show."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from alphaedge.edge.directory.exchange import Delta, Exchange
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.credentials import InsecureCredentials
from alphaedge.edge.trust.incarnation import Incarnation

from ..directories import announcement


def take(steps: Iterator[None]) -> None:
    """Take all steps of reading a message."""
    for _ in steps:
        pass


@dataclass
class Network:
    """Edges e0, e1, ... without certificates. halves: if any, only edges in the same one are linked.

    clocks: by edge, how many seconds its clock is ahead of the true time. traffic: every delta that was sent.
    """

    count: int
    seeds: tuple[str, ...] = ("e0:1",)
    now: float = 1000.0
    edges: dict[str, Exchange] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    halves: list[set[str]] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)
    incarnations: dict[str, Incarnation] = field(default_factory=dict)
    traffic: list[Delta] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(0)
        for number in range(self.count):
            self.start(f"e{number}")

    def start(self, edge: str, **fields: object) -> None:
        """Start an edge, or start it again in its next incarnation."""
        if edge in self.incarnations:
            self.incarnations[edge].rise()
        own = InsecureCredentials(edge, "DE", self.incarnations.setdefault(edge, Incarnation()))
        membership = Membership(edge, own, lambda: 1e9 + self.now + self.clocks.get(edge, 0.0))
        self.edges[edge] = Exchange(membership, self.seeds)
        self.announce(edge, **fields)
        self.down.discard(edge)

    def announce(self, edge: str, version: int = 1, **fields: object) -> SignedAnnouncement:
        membership = self.edges[edge].membership
        signed = membership.credentials.sign(announcement(edge, version, address=f"{edge}:1", **fields))
        membership.announce(signed, self.now)
        return signed

    def linked(self, one: str, other: str) -> bool:
        if other in self.down or other not in self.edges:
            return False
        return not self.halves or any({one, other} <= half for half in self.halves)

    def run_round(self) -> None:
        self.now += 1.0
        for edge in sorted(set(self.edges) - self.down):
            me = self.edges[edge]
            me.membership.renew_heartbeat(self.now)
            for address in me.choose_contacts(self._rng, self.now):
                other = address.removesuffix(":1")
                if self.linked(edge, other):
                    self.exchange(edge, other)

    def exchange(self, one: str, other: str) -> None:
        me, peer = self.edges[one], self.edges[other]
        digest = me.digest()
        take(peer.read_digest(one, digest, self.now))
        delta = msgspec.msgpack.decode(msgspec.msgpack.encode(peer.delta(digest)), type=Delta)
        take(me.read_delta(other, delta, self.now))
        self.traffic.append(delta)
        missing = me.last_delta(delta.digest)
        if missing is not None:
            take(peer.read_delta(one, missing, self.now))
            self.traffic.append(missing)

    def run_rounds(self, rounds: int) -> None:
        for _ in range(rounds):
            self.run_round()

    def view(self, edge: str) -> frozenset[str]:
        """Return the edges that an edge sees as alive."""
        return frozenset(self.edges[edge].membership.alive(self.now))

    def views(self) -> set[frozenset[str]]:
        """Return the different sets of edges that edges see as alive."""
        return {self.view(edge) for edge in set(self.edges) - self.down}

    def rounds_until(self, expected: set[frozenset[str]], limit: int = 60) -> int:
        for number in range(limit):
            if self.views() == expected:
                return number
            self.run_round()
        raise AssertionError(f"after {limit} rounds the views are {self.views()}")


def connected(count: int) -> tuple[Network, frozenset[str]]:
    """A network in which every edge knows every other, and its edges."""
    network = Network(count)
    everyone = frozenset(network.edges)
    network.rounds_until({everyone})
    return network, everyone
