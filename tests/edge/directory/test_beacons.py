"""What edges tell each other through NATS: what counts, what is passed on, and what it costs. Pure: no I/O."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from alphaedge.edge.directory.beacons import Beacon, Beacons, News
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.incarnation import Incarnation

from ..credentials import load_credentials
from ..directories import announcement, revoke, tampered

WAIT = 3.0


@dataclass
class Member:
    """An edge and its beacons."""

    name: str
    own: CertificateCredentials
    beacons: Beacons

    @property
    def alive(self) -> Callable[[float], set[str]]:
        return lambda now: set(self.beacons.membership.alive(now))


def start(certs: Path, name: str, incarnation: Incarnation | None = None) -> Member:
    own = load_credentials(certs / "ours", name, incarnation=incarnation or Incarnation())
    membership = Membership(name, own, lambda: 1e9, down_after=10.0)
    membership.announce(own.sign(announcement(name, 1)), 0.0)
    return Member(name, own, Beacons(membership, WAIT, random.Random(0)))


def test_a_beacon_counts_once(certs: Path) -> None:
    berlin, bonn = start(certs, "berlin"), start(certs, "bonn")
    old = bonn.beacons.write(0.0)
    berlin.beacons.read("bonn", old, 0.0)
    assert berlin.alive(9.0) == {"berlin", "bonn"}
    for second in range(1, 30):
        berlin.beacons.read("bonn", old, float(second))
    assert berlin.alive(11.0) == {"berlin"}, "whoever repeats it does not keep bonn alive"
    berlin.beacons.read("bonn", bonn.beacons.write(30.0), 30.0)
    assert berlin.alive(30.0) == {"berlin", "bonn"}


def test_an_edge_that_has_lost_its_disk_is_told_by_one_of_the_others(certs: Path) -> None:
    berlin, kiel, old = start(certs, "berlin"), start(certs, "north.shop."), start(certs, "bonn")
    for _ in range(5):
        old.own.incarnation.rise()
    value = old.beacons.write(0.0)
    for other in (berlin, kiel):
        other.beacons.read("bonn", value, 0.0)
    new = start(certs, "bonn")
    value = new.beacons.write(20.0)
    for other in (berlin, kiel):
        other.beacons.read("bonn", value, 20.0)
        assert other.alive(20.0) == {other.name}
        assert other.beacons.write_news(20.0) == [], "not at once: another may do it"
    (news,) = berlin.beacons.write_news(20.0 + WAIT)
    for other in (kiel, new):
        other.beacons.read_news("berlin", news, 21.0)
    assert kiel.beacons.write_news(20.0 + WAIT) == [], "once is enough"
    assert new.own.incarnation.number == 7
    berlin.beacons.read("bonn", new.beacons.write(22.0), 22.0)
    assert berlin.alive(22.0) == {"berlin", "bonn"}


def test_an_edge_with_an_old_revocation_list_gets_the_new_one(certs: Path) -> None:
    berlin, bonn, liar = (start(certs, name) for name in ("berlin", "bonn", "liar"))
    for reader in (berlin, bonn):
        for writer in (berlin, bonn, liar):
            if reader is not writer:
                reader.beacons.read(writer.name, writer.beacons.write(0.0), 0.0)
    berlin.own.revocations.offer(revoke(certs, 1, "liar"))
    berlin.beacons.read("bonn", bonn.beacons.write(1.0), 1.0)
    (news,) = berlin.beacons.write_news(1.0 + WAIT)
    assert msgspec.msgpack.decode(news, type=News).signed is None
    bonn.beacons.read_news("berlin", news, 2.0)
    assert bonn.own.revocations.number == 1
    assert bonn.alive(2.0) == {"berlin", "bonn"}
    bonn.beacons.read("liar", liar.beacons.write(3.0), 3.0)
    assert "liar" not in bonn.beacons.membership.entries
    assert any("of liar is revoked" in reason for reason in bonn.beacons.membership.refusals)


@pytest.mark.parametrize("news", [b"", b"nonsense", msgspec.msgpack.encode(News())])
def test_news_that_say_nothing_change_nothing(certs: Path, news: bytes) -> None:
    berlin = start(certs, "berlin")
    berlin.beacons.read_news("liar", news, 0.0)
    assert berlin.own.incarnation.number == 1
    assert berlin.alive(0.0) == {"berlin"}


def test_a_key_with_false_signatures_is_not_read_for_a_while(certs: Path) -> None:
    berlin, liar = start(certs, "berlin"), start(certs, "liar")
    false = msgspec.msgpack.encode(Beacon(tampered(certs), Heartbeat(9, 1, 0, b""), 0))
    for _ in range(1000):
        berlin.beacons.read("liar", false, 1.0)
        berlin.beacons.read_news("liar", msgspec.msgpack.encode(News(tampered(certs))), 1.0)
    assert berlin.beacons.membership.refusals == {"an announcement of liar has a wrong signature": 1}
    berlin.beacons.read("liar", liar.beacons.write(2.0), 2.0)
    assert berlin.alive(2.0) == {"berlin"}
    berlin.beacons.read("liar", liar.beacons.write(7.0), 7.0)
    assert berlin.alive(7.0) == {"berlin", "liar"}, "it is heard again"
