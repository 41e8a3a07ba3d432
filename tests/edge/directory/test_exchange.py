"""The work that a message of another edge may cause is bounded, and who sends false signatures is left alone."""

import datetime as dt
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alphaedge.edge.directory import exchange as exchange_module
from alphaedge.edge.directory.exchange import MAX_FORGED, Delta, Digest, Exchange
from alphaedge.edge.directory.gossip import MAX_ANSWER_BYTES, MAX_DELTA_BYTES, MAX_DIGEST_BYTES
from alphaedge.edge.directory.membership import MAX_EDGES, Entry, Membership
from alphaedge.edge.directory.senders import MAX_SENDERS, Senders
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.credentials import CertificateCredentials, InsecureCredentials
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.incarnation import MAX_COUNT, MAX_INCARNATION
from alphaedge.edge.trust.revocations import MAX_LIST_BYTES, SignedRevocations
from alphaedge.errors import PeerForbidden, PeerRequestTooLarge

from ..credentials import utc_now
from ..directories import announcement, foreign_credentials, our_credentials
from .network import Network, take

NO_DIGEST = Digest({})


class Counting:
    """Credentials that count what they verify."""

    def __init__(self, own: CertificateCredentials) -> None:
        self._own, self.verified = own, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def verify(self, signed: SignedAnnouncement) -> Any:
        self.verified += 1
        return self._own.verify(signed)

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: Heartbeat) -> None:
        self.verified += 1
        self._own.verify_heartbeat(signed, heartbeat)


@pytest.fixture
def berlin(certs: Path) -> tuple[Exchange, Counting]:
    """An edge that knows bonn, and what it verifies from now on."""
    own = our_credentials(certs, "berlin")
    counting: Any = Counting(own)
    membership = Membership("berlin", counting, lambda: 1e9)
    membership.announce(own.sign(announcement("berlin", 1)), 0.0)
    bonn = our_credentials(certs, "bonn")
    membership.accept(bonn.sign(announcement("bonn", 1)), 0.0)
    counting.verified = 0
    return Exchange(membership), counting


def false_announcements(certs: Path, count: int) -> list[SignedAnnouncement]:
    """Announcements of bonn that it has not signed, each newer than the last."""
    signed = our_credentials(certs, "bonn").sign(announcement("bonn", 2))
    return [
        msgspec.structs.replace(signed, payload=msgspec.msgpack.encode(announcement("bonn", v, incarnation=1)))
        for v in range(3, 3 + count)
    ]


def test_reading_ends_at_the_third_false_signature_and_the_sender_is_left_alone(
    certs: Path, berlin: tuple[Exchange, Counting]
) -> None:
    exchange, counting = berlin
    take(exchange.read_delta("liar", Delta(false_announcements(certs, 60), NO_DIGEST), 1.0))
    assert counting.verified == MAX_FORGED
    assert exchange.membership.refusals == {"an announcement of bonn has a wrong signature": MAX_FORGED}
    with pytest.raises(PeerForbidden, match="liar has sent false signatures; it is heard again in 4 s"):
        exchange.senders.check("liar", 2.0)
    true = our_credentials(certs, "bonn").sign(announcement("bonn", 2))
    take(exchange.read_delta("bonn", Delta([true], NO_DIGEST), 2.0))
    assert exchange.membership.alive(2.0)["bonn"].version == 2, "others are heard"


def test_false_heartbeats_are_as_limited_as_false_announcements(certs: Path, berlin: tuple[Exchange, Counting]) -> None:
    exchange, counting = berlin
    forged = {f"x{number}": (1, 1, Heartbeat(1, 5, 0, b"x" * 70)) for number in range(50)}
    signed = exchange.membership.entries["bonn"].signed
    for edge in forged:  # as if all of them were known
        exchange.membership.entries[edge] = Entry(signed, announcement(edge, 1, incarnation=1), 0.0)
    take(exchange.read_digest("liar", Digest(forged), 1.0))
    assert counting.verified == MAX_FORGED
    assert exchange.senders.is_resting("liar", 2.0)


def test_a_foreign_certificate_is_a_false_signature_and_an_expired_one_is_not(
    certs: Path, berlin: tuple[Exchange, Counting]
) -> None:
    """An honest edge whose clock is behind passes on what has expired by ours."""
    exchange, counting = berlin
    old = our_credentials(certs, "bonn").sign(announcement("bonn", 2))
    counting._own.now = lambda: utc_now() + dt.timedelta(days=60)
    for _ in range(5):
        take(exchange.read_delta("bonn", Delta([old], NO_DIGEST), 1.0))
    assert not exchange.senders.is_resting("bonn", 2.0)
    counting._own.now = utc_now
    foreign = foreign_credentials(certs, "liar").sign(announcement("liar", 1))
    take(exchange.read_delta("liar", Delta([foreign], NO_DIGEST), 1.0))
    assert exchange.senders.is_resting("liar", 2.0)


def test_what_is_known_is_not_verified_again(certs: Path, berlin: tuple[Exchange, Counting]) -> None:
    exchange, counting = berlin
    bonn = our_credentials(certs, "bonn")
    signed, heartbeat = bonn.sign(announcement("bonn", 2)), bonn.sign_heartbeat(1, 0)
    for _ in range(50):
        take(exchange.read_delta("liar", Delta([signed] * 30, Digest({"bonn": (1, 2, heartbeat)})), 1.0))
    assert counting.verified == 2


def test_a_message_that_names_too_much_is_refused_unread(certs: Path, berlin: tuple[Exchange, Counting]) -> None:
    exchange, counting = berlin
    with pytest.raises(PeerRequestTooLarge, match="100 announcements; allowed: at most 68"):
        take(exchange.read_delta("liar", Delta(false_announcements(certs, 100), NO_DIGEST), 1.0))
    assert counting.verified == 0


@pytest.mark.parametrize("kind", [Digest, Delta])
def test_a_message_with_very_many_entries_is_refused_before_they_are_decoded(kind: type[msgspec.Struct]) -> None:
    crowd = Digest({f"e{number}": (1, 1, None) for number in range(MAX_EDGES + 1)})
    message = crowd if kind is Digest else Delta([SignedAnnouncement(b"", b"", b"")] * (MAX_EDGES + 1), NO_DIGEST)
    with pytest.raises(msgspec.ValidationError, match=f"of length <= {MAX_EDGES}"):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=kind)


def crowd(count: int) -> Exchange:
    """An edge that knows so many others."""
    made = Membership("me", InsecureCredentials("me", "DE"), lambda: 1e9)
    made.announce(made.credentials.sign(announcement("me", 1, address="me:1")), 0.0)
    for number in range(count):
        edge = f"x{number}"
        made.accept(InsecureCredentials(edge, "DE").sign(announcement(edge, 1, address=f"{edge}:1")), 0.0)
    return Exchange(made)


def test_a_new_edge_learns_of_a_large_fleet_in_few_bounded_messages() -> None:
    old, new = crowd(1000), Network(1).edges["e0"]
    sizes = []
    while len(new.membership.entries) < 1002:
        delta = old.delta(new.digest())
        sizes.append(len(delta.announcements))
        take(new.read_delta("me", delta, 0.0))
    assert sizes == [34, 102, 306, 559]


def test_a_delta_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "MAX_ANNOUNCEMENTS_BYTES", 1000)
    old, new = crowd(30), Network(1).edges["e0"]
    while len(new.membership.entries) < 32:
        delta = old.delta(new.digest())
        assert 1 <= sum(len(signed.payload) for signed in delta.announcements) <= 1000
        take(new.read_delta("me", delta, 0.0))


def test_the_largest_messages_of_an_honest_edge_are_accepted() -> None:
    heartbeat = Heartbeat(MAX_INCARNATION, MAX_COUNT, MAX_COUNT, bytes(72))
    names = [f"{number:063}" for number in range(MAX_EDGES)]
    digest = Digest(dict.fromkeys(names, (MAX_INCARNATION, MAX_COUNT, heartbeat)), MAX_COUNT)
    assert len(msgspec.msgpack.encode(digest)) <= MAX_DIGEST_BYTES
    signed = SignedAnnouncement(bytes(300), bytes(72), bytes(600))
    announcements = [signed] * (exchange_module.MAX_ANNOUNCEMENTS_BYTES // 972)
    revocations = SignedRevocations(bytes(MAX_LIST_BYTES), bytes(72))
    assert len(msgspec.msgpack.encode(Delta(announcements, digest, revocations))) <= MAX_ANSWER_BYTES
    told = Digest(dict(list(digest.versions.items())[: len(announcements)]), MAX_COUNT)
    assert len(msgspec.msgpack.encode(Delta(announcements, told, revocations))) <= MAX_DELTA_BYTES


def test_living_edges_are_told_first() -> None:
    old, new = crowd(100), Network(1).edges["e0"]
    old.membership.entries["x77"].heard = 5.0
    signed = old.delta(new.digest()).announcements[0]
    assert signed == old.membership.entries["x77"].signed


def test_a_sender_is_left_alone_for_longer_each_time_and_only_so_many_are_remembered() -> None:
    senders = Senders()
    senders.blame("liar", 0.0)
    assert senders.is_resting("liar", 4.9)
    assert not senders.is_resting("liar", 5.0)
    senders.blame("liar", 5.0)
    assert senders.is_resting("liar", 14.9)
    senders.forgive("liar")
    senders.blame("liar", 20.0)
    assert not senders.is_resting("liar", 25.0)
    for number in range(MAX_SENDERS + 10):
        senders.blame(f"e{number}", 0.0)
    assert len(senders._rests) == MAX_SENDERS


def test_an_address_with_false_signatures_is_not_contacted(certs: Path, berlin: tuple[Exchange, Counting]) -> None:
    exchange, _ = berlin
    exchange.seeds = ("seed:1",)
    assert "seed:1" in exchange.choose_contacts(random.Random(0), 1.0)
    exchange.senders.blame("seed:1", 1.0)
    assert "seed:1" not in exchange.choose_contacts(random.Random(0), 2.0)
