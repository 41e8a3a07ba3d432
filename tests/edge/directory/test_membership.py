"""Edges find each other from one seed, notice who is gone, and meet again after a broken net."""

import datetime as dt
import random
from dataclasses import dataclass, field

import msgspec
import pytest
from msgspec import structs

from alphaedge.edge.directory.membership import Delta, Digest, Membership, count
from alphaedge.edge.trust.announcements import (
    SIGNED,
    Announcement,
    SignedAnnouncement,
    sign,
    sign_beat,
    verify,
    verify_beat,
)
from alphaedge.edge.trust.certificates import Pair, create_authority, issue
from alphaedge.errors import AnnouncementError

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
CA = create_authority("shops", now=NOW, days=1000)
FOREIGN = create_authority("shops", now=NOW, days=1000)


def pair(edge: str, region: str = "DE", authority: Pair = CA) -> Pair:
    return issue(authority, edge, region, ["localhost"], now=NOW, days=90)


def about(edge: str, version: int = 1, **more: object) -> Announcement:
    known = {"region": "DE", "address": f"{edge}:1", "schema": "s"} | more
    return Announcement(edge=edge, version=version, **known)  # type: ignore[arg-type]


def believed(record: SignedAnnouncement) -> Announcement:
    return verify(record, CA.certificate, NOW)


def test_a_record_says_what_its_edge_has_signed() -> None:
    said = about("berlin", shares={"bonn": 0.25})
    assert believed(sign(said, pair("berlin"))) == said


LIES = {
    "another edge's id": (lambda: sign(about("bonn"), pair("berlin")), "berlin in DE claims to be bonn"),
    "another region": (lambda: sign(about("berlin", region="US"), pair("berlin")), "claims to be berlin in US"),
    "a foreign authority": (lambda: sign(about("berlin"), pair("berlin", authority=FOREIGN)), "not issued"),
    "an impossible weight": (lambda: sign(about("berlin", shares={"x": 1.5}), pair("berlin")), "can't be"),
    "weights above 1": (lambda: sign(about("berlin", shares={"x": 0.7, "y": 0.7}), pair("berlin")), "can't be"),
    "a negative version": (lambda: sign(about("berlin", version=-1), pair("berlin")), "can't be"),
}


@pytest.mark.parametrize("lie", list(LIES))
def test_lies_are_refused(lie: str) -> None:
    make, reason = LIES[lie]
    with pytest.raises(AnnouncementError, match=reason):
        believed(make())


def test_a_record_that_somebody_changed_is_refused() -> None:
    true = sign(about("berlin"), pair("berlin"))
    changed = msgspec.structs.replace(true, about=msgspec.msgpack.encode(about("berlin", version=2)))
    with pytest.raises(AnnouncementError, match="not signed by it"):
        believed(changed)
    garbled = msgspec.structs.replace(true, certificate=b"nonsense")
    with pytest.raises(AnnouncementError, match="certificate"):
        believed(garbled)
    own = pair("berlin")
    nothing = SignedAnnouncement(
        b"\xc1",
        own.key.sign(b"\xc1", __import__("alphaedge.edge.trust.announcements").edge.records.SIGNED),
        true.certificate,
    )
    with pytest.raises(AnnouncementError):
        believed(nothing)


def plain(record: SignedAnnouncement) -> Announcement:
    """For tests of the gossip itself: no signature."""
    return msgspec.msgpack.decode(record.about, type=Announcement)


def unsigned(said: Announcement) -> SignedAnnouncement:
    return SignedAnnouncement(msgspec.msgpack.encode(said), b"", b"")


@dataclass
class Net:
    """Edges in one process, a clock, and links that can be cut."""

    count: int
    seeds: tuple[str, ...] = ("e0:1",)
    now: float = 1000.0
    edges: dict[str, Membership] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    halves: list[set[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(0)
        for i in range(self.count):
            self.start(f"e{i}")

    def start(self, edge: str, version: int = 1) -> None:
        self.edges[edge] = Membership(edge, plain, self.seeds)
        self.edges[edge].speak(unsigned(about(edge, version)), self.now)
        self.down.discard(edge)

    def linked(self, one: str, other: str) -> bool:
        if other in self.down or other not in self.edges:
            return False
        return not self.halves or any({one, other} <= half for half in self.halves)

    def round(self, seconds: float = 1.0) -> None:
        self.now += seconds
        for edge in sorted(set(self.edges) - self.down):
            me = self.edges[edge]
            me.beat(self.now)
            for address in me.next(self.rng, self.now):
                other = address.removesuffix(":1")
                if self.linked(edge, other):
                    news = self.edges[other].answer(me.digest(), self.now)
                    news = msgspec.msgpack.decode(msgspec.msgpack.encode(news), type=Delta)
                    me.merge(news, self.now)
                    self.edges[other].merge(Delta(me.owed(news.digest), me.digest()), self.now)

    def views(self) -> set[frozenset[str]]:
        return {frozenset(self.edges[e].alive(self.now)) for e in set(self.edges) - self.down}

    def rounds_until(self, right: set[frozenset[str]], most: int = 60) -> int:
        for number in range(most):
            if self.views() == right:
                return number
            self.round()
        raise AssertionError(f"after {most} rounds the views are {self.views()}")


def test_everybody_finds_everybody_from_one_seed() -> None:
    net = Net(12)
    assert net.rounds_until({frozenset(net.edges)}) <= 10


def test_one_that_crashes_is_missed_and_welcomed_back() -> None:
    net = Net(8)
    everybody = frozenset(net.edges)
    net.rounds_until({everybody})
    net.down.add("e3")
    assert 4 <= net.rounds_until({everybody - {"e3"}}) <= 12, "after the time in which it might only have been slow"
    net.start("e3", version=2)
    assert net.rounds_until({everybody}) <= 10


def test_even_the_seed_may_go_once_all_have_met() -> None:
    net = Net(6)
    everybody = frozenset(net.edges)
    net.rounds_until({everybody})
    net.down.add("e0")
    net.rounds_until({everybody - {"e0"}})
    for _ in range(20):
        net.round()
    assert net.views() == {everybody - {"e0"}}


def test_the_halves_of_a_broken_net_go_on_and_join_again() -> None:
    net = Net(10)
    everybody = frozenset(net.edges)
    net.rounds_until({everybody})
    north = {f"e{i}" for i in range(4)}
    net.halves = [north, set(everybody) - north]
    net.rounds_until({frozenset(north), everybody - north})
    for _ in range(30):
        net.round()
    net.halves = []
    assert net.rounds_until({everybody}) <= 15


def test_who_leaves_for_good_is_gone_at_once() -> None:
    net = Net(6)
    everybody = frozenset(net.edges)
    net.rounds_until({everybody})
    net.edges["e2"].speak(unsigned(about("e2", version=9, gone=True)), net.now)
    net.round()
    net.round()
    net.round()
    others = {frozenset(net.edges[e].alive(net.now)) for e in net.edges if e != "e2"}
    assert others == {everybody - {"e2"}}


def test_the_newest_record_wins_and_old_ones_that_are_replayed_change_nothing() -> None:
    net = Net(5)
    net.rounds_until({frozenset(net.edges)})
    old = unsigned(about("e1", version=1, schema="old"))
    net.edges["e1"].speak(unsigned(about("e1", version=2, schema="new")), net.now)
    for _ in range(5):
        net.round()
    for edge in net.edges.values():
        assert edge.merge(Delta([old], Digest({})), net.now) == []
        assert edge.alive(net.now)["e1"].schema == "new"


def test_a_liar_can_neither_kill_an_edge_nor_speak_for_it() -> None:
    net = Net(4)
    everybody = frozenset(net.edges)
    net.rounds_until({everybody})
    far = int((net.now + 10**6) * 1000)  # a heartbeat from the future would make the true ones look old
    for edge in net.edges.values():
        edge.merge(Delta([], Digest({"e1": (10**9, far, b"")})), net.now)
        edge.merge(Delta([unsigned(about(edge.me, version=10**6))], Digest({})), net.now)
    for _ in range(20):
        net.round()
    assert net.views() == {everybody}
    assert all(edge.alive(net.now)[edge.me].version == 1 for edge in net.edges.values())


def test_a_forged_heartbeat_is_refused_and_changes_nothing() -> None:
    """One that is a little ahead would make the true ones look old, and its edge dead."""
    kiel = pair("kiel")
    me = Membership("berlin", believed, [], genuine=verify_beat)
    me.speak(sign(about("berlin"), pair("berlin")), 1.0)
    me.merge(Delta([sign(about("kiel"), kiel)], Digest({})), 1.0)
    ahead = 30_000
    for signature in (
        b"",
        b"x" * 70,
        sign_beat("kiel", ahead, pair("essen")),
        sign_beat("kiel", ahead + 1, kiel),
    ):
        me.merge(Delta([], Digest({"kiel": (1, ahead, signature)})), 2.0)
    assert me.refused == {"a heartbeat of kiel is not signed by it": 4}
    for second in range(1, 20):
        beat = 1000 * second
        me.merge(Delta([], Digest({"kiel": (1, beat, sign_beat("kiel", beat, kiel))})), float(second))
        assert "kiel" in me.alive(float(second))
    assert me.digest().heard["kiel"][1] == 19_000


@pytest.mark.parametrize(
    "address", ["a..b:80", "x" * 64 + ":80", "host", "host:port", "", "ho st:80", "u@h:80", "h:80/x"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    one = pair("kiel")
    with pytest.raises(AnnouncementError, match="no address that can be"):
        believed(sign(structs.replace(about("kiel"), address=address), one))


@pytest.mark.parametrize(
    "address", ["berlin:1", "10.0.0.7:8443", "[::1]:8443", "a-b.example.com:8443", "under_score:1"]
)
def test_addresses_are_names_or_numbers_with_a_port(address: str) -> None:
    assert believed(sign(structs.replace(about("kiel"), address=address), pair("kiel"))).address == address


def test_what_cannot_be_read_is_refused_whatever_it_is() -> None:
    one = pair("kiel")
    good = sign(about("kiel"), one)
    for body in (b"", b"\xa4edge\xa2\xff\xff", b"\x81\xa4edge\xa2\xff\xff", b"\xc1", bytes(300)):
        with pytest.raises(AnnouncementError):
            believed(SignedAnnouncement(body, one.key.sign(body, SIGNED), good.certificate))
    for place in range(
        0, len(good.certificate), 7
    ):  # one byte of the certificate: another curve, another algorithm ...
        changed = bytearray(good.certificate)
        changed[place] ^= 0xFF
        with pytest.raises(AnnouncementError):
            believed(SignedAnnouncement(good.about, good.signature, bytes(changed)))


def test_reasons_are_few_and_short() -> None:
    reasons: dict[str, int] = {}
    for number in range(500):
        count(reasons, f"{number} " + "x" * 10_000)
    assert len(reasons) <= 101
    assert max(map(len, reasons)) <= 200
    assert sum(reasons.values()) == 500


def test_refused_records_are_counted_by_their_reason() -> None:
    me = Membership("berlin", believed, [])
    me.speak(sign(about("berlin"), pair("berlin")), 1.0)
    false = sign(about("bonn"), pair("essen"))
    for _ in range(3):
        me.merge(Delta([false, sign(about("kiel"), pair("kiel"))], Digest({})), 2.0)
    assert me.refused == {"essen in DE claims to be bonn in DE": 3}
    assert set(me.alive(2.0)) == {"berlin", "kiel"}


def test_a_clock_that_jumps_back_is_no_silence() -> None:
    net = Net(3)
    net.rounds_until({frozenset(net.edges)})
    me = net.edges["e1"]
    before = me.digest().heard["e1"][1]
    me.beat(net.now - 500)
    assert me.digest().heard["e1"][1] > before


def test_who_was_down_for_very_long_is_forgotten() -> None:
    net = Net(4)
    net.rounds_until({frozenset(net.edges)})
    net.down.add("e3")
    for _ in range(10):
        net.round()
    me = net.edges["e1"]
    me.forget(net.now)
    assert "e3" in me.digest().heard
    me.forget_after = 5.0
    me.forget(net.now)
    assert set(me.digest().heard) == {"e0", "e1", "e2"}
