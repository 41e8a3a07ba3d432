"""Edges find each other from one seed, notice which are down, and meet again after a partition. Pure: no I/O."""

import datetime as dt
import random
from dataclasses import dataclass, field

import msgspec

from alphaedge.edge.directory.membership import Delta, Digest, Membership, count_refusal
from alphaedge.edge.trust.announcements import (
    Announcement,
    SignedAnnouncement,
    decode_announcement,
    sign_announcement,
    sign_heartbeat,
    verify_announcement,
    verify_heartbeat,
)
from alphaedge.edge.trust.certificates import KeyPair, create_authority, issue_certificate

from ..directories import announcement

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
AUTHORITY = create_authority("shops", now=NOW, days=1000)


def unsigned(edge: str, version: int = 1, **fields: object) -> SignedAnnouncement:
    content = announcement(edge, version, address=f"{edge}:1", **fields)
    return SignedAnnouncement(msgspec.msgpack.encode(content), b"", b"")


def issue(edge: str) -> KeyPair:
    return issue_certificate(AUTHORITY, edge, "DE", ["localhost"], now=NOW, days=90)


def signed(edge: str, pair: KeyPair) -> SignedAnnouncement:
    return sign_announcement(announcement(edge, 1), pair)


def verify(signed: SignedAnnouncement) -> Announcement:
    return verify_announcement(signed, AUTHORITY.certificate, NOW)


@dataclass
class Network:
    """Edges in one process that share a clock. halves: if any, only edges in the same one are linked."""

    count: int
    seeds: tuple[str, ...] = ("e0:1",)
    now: float = 1000.0
    edges: dict[str, Membership] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    halves: list[set[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(0)
        for number in range(self.count):
            self.start(f"e{number}")

    def start(self, edge: str, version: int = 1) -> None:
        self.edges[edge] = Membership(edge, decode_announcement, self.seeds)
        self.edges[edge].announce(unsigned(edge, version), self.now)
        self.down.discard(edge)

    def linked(self, one: str, other: str) -> bool:
        if other in self.down or other not in self.edges:
            return False
        return not self.halves or any({one, other} <= half for half in self.halves)

    def run_round(self) -> None:
        self.now += 1.0
        for edge in sorted(set(self.edges) - self.down):
            me = self.edges[edge]
            me.renew_heartbeat(self.now)
            for address in me.choose_contacts(self._rng, self.now):
                other = address.removesuffix(":1")
                if self.linked(edge, other):
                    self._exchange(me, self.edges[other])

    def _exchange(self, me: Membership, other: Membership) -> None:
        delta = msgspec.msgpack.decode(msgspec.msgpack.encode(other.answer(me.digest(), self.now)), type=Delta)
        me.merge(delta, self.now)
        other.merge(Delta(me.newer_than(delta.digest), me.digest()), self.now)

    def run_rounds(self, rounds: int) -> None:
        for _ in range(rounds):
            self.run_round()

    def views(self) -> set[frozenset[str]]:
        """Return the different sets of edges that edges see as alive."""
        return {frozenset(self.edges[edge].alive(self.now)) for edge in set(self.edges) - self.down}

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


def test_every_edge_finds_every_other_from_one_seed() -> None:
    network = Network(12)
    assert network.rounds_until({frozenset(network.edges)}) <= 10


def test_an_edge_that_crashes_is_missed_and_may_come_back() -> None:
    network, everyone = connected(8)
    network.down.add("e3")
    assert 4 <= network.rounds_until({everyone - {"e3"}}) <= 12, "not while it might only be slow"
    network.start("e3", version=2)
    assert network.rounds_until({everyone}) <= 10


def test_the_seed_may_go_once_all_edges_know_each_other() -> None:
    network, everyone = connected(6)
    network.down.add("e0")
    network.rounds_until({everyone - {"e0"}})
    network.run_rounds(20)
    assert network.views() == {everyone - {"e0"}}


def test_the_halves_of_a_partition_go_on_and_join_again() -> None:
    network, everyone = connected(10)
    north = {f"e{number}" for number in range(4)}
    network.halves = [north, set(everyone) - north]
    network.rounds_until({frozenset(north), everyone - north})
    network.run_rounds(30)
    network.halves = []
    assert network.rounds_until({everyone}) <= 15


def test_an_edge_that_leaves_for_good_is_gone_within_three_rounds() -> None:
    network, everyone = connected(6)
    network.edges["e2"].announce(unsigned("e2", version=9, gone=True), network.now)
    network.run_rounds(3)
    views = {frozenset(network.edges[edge].alive(network.now)) for edge in network.edges if edge != "e2"}
    assert views == {everyone - {"e2"}}


def test_the_newest_announcement_wins_and_an_old_one_that_is_replayed_changes_nothing() -> None:
    network, _ = connected(5)
    network.edges["e1"].announce(unsigned("e1", version=2, schema="new"), network.now)
    network.run_rounds(5)
    old = unsigned("e1", version=1, schema="old")
    for edge in network.edges.values():
        assert edge.merge(Delta([old], Digest({})), network.now) == []
        assert edge.alive(network.now)["e1"].schema == "new"


def test_no_edge_can_end_or_announce_another() -> None:
    network, everyone = connected(4)
    future = int((network.now + 10**6) * 1000)  # a heartbeat that would make the true ones look old
    for edge in network.edges.values():
        edge.merge(Delta([], Digest({"e1": (10**9, future, b"")})), network.now)
        edge.merge(Delta([unsigned(edge.me, version=10**6)], Digest({})), network.now)
    network.run_rounds(20)
    assert network.views() == {everyone}
    assert all(edge.alive(network.now)[edge.me].version == 1 for edge in network.edges.values())


def test_a_forged_heartbeat_is_refused_and_changes_nothing() -> None:
    """If it were a little ahead, it would make the true ones look old, and its edge dead."""
    kiel = issue("kiel")
    me = Membership("berlin", verify, [], verify_heartbeat=verify_heartbeat)
    me.announce(signed("berlin", issue("berlin")), 1.0)
    me.merge(Delta([signed("kiel", kiel)], Digest({})), 1.0)
    ahead = 30_000
    for signature in (b"", sign_heartbeat("kiel", ahead, issue("essen")), sign_heartbeat("kiel", ahead + 1, kiel)):
        me.merge(Delta([], Digest({"kiel": (1, ahead, signature)})), 2.0)
    assert me.refusals == {"a heartbeat of kiel has a wrong signature": 3}
    for second in range(1, 20):
        heartbeat = 1000 * second
        digest = Digest({"kiel": (1, heartbeat, sign_heartbeat("kiel", heartbeat, kiel))})
        me.merge(Delta([], digest), float(second))
        assert "kiel" in me.alive(float(second))
    assert me.digest().versions["kiel"][1] == 19_000


def test_reasons_of_refusals_stay_few_and_short() -> None:
    refusals: dict[str, int] = {}
    for number in range(500):
        count_refusal(refusals, f"{number} " + "x" * 10_000)
    assert len(refusals) <= 101
    assert max(map(len, refusals)) <= 200
    assert sum(refusals.values()) == 500


def test_refused_announcements_are_counted_by_reason() -> None:
    me = Membership("berlin", verify, [])
    me.announce(signed("berlin", issue("berlin")), 1.0)
    false, true = signed("bonn", issue("essen")), signed("kiel", issue("kiel"))
    for _ in range(3):
        me.merge(Delta([false, true], Digest({})), 2.0)
    assert me.refusals == {"essen in DE claims to be bonn in DE": 3}
    assert set(me.alive(2.0)) == {"berlin", "kiel"}


def test_heartbeats_grow_even_if_the_clock_jumps_back() -> None:
    network, _ = connected(3)
    me = network.edges["e1"]
    before = me.digest().versions["e1"][1]
    me.renew_heartbeat(network.now - 500)
    assert me.digest().versions["e1"][1] > before


def test_an_edge_that_was_down_for_very_long_is_forgotten() -> None:
    network, _ = connected(4)
    network.down.add("e3")
    network.run_rounds(10)
    me = network.edges["e1"]
    me.forget(network.now)
    assert "e3" in me.digest().versions
    me.forget_after = 5.0
    me.forget(network.now)
    assert set(me.digest().versions) == {"e0", "e1", "e2"}
