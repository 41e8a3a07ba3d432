"""An announcement counts only if the edge that it describes has signed it and its values are possible."""

import datetime as dt
from collections.abc import Callable

import msgspec
import pytest

from alphaedge.edge.trust.announcements import (
    MAX_ANNOUNCEMENT_BYTES,
    SIGNATURE_ALGORITHM,
    Announcement,
    SignedAnnouncement,
    fit_limits,
    read_head,
    sign_announcement,
    verify_announcement,
)
from alphaedge.edge.trust.certificate_checks import CertificateChecks
from alphaedge.edge.trust.certificates import KeyPair, create_authority, issue_certificate
from alphaedge.edge.trust.heartbeats import Heartbeat, sign_heartbeat, verify_heartbeat
from alphaedge.edge.trust.known_revocations import KnownRevocations
from alphaedge.errors import AnnouncementError
from alphaedge.monitoring.vitals import Link, Vitals

from ..directories import announcement

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
AUTHORITY = create_authority("shops", now=NOW, days=1000)
FOREIGN = create_authority("shops", now=NOW, days=1000)


def issue(edge: str, authority: KeyPair = AUTHORITY) -> KeyPair:
    return issue_certificate(authority, edge, "DE", ["localhost"], now=NOW, days=90)


BERLIN = issue("berlin")


def verify(signed: SignedAnnouncement) -> Announcement:
    checks = CertificateChecks(lambda: AUTHORITY.certificate, KnownRevocations(), lambda: NOW)
    return verify_announcement(signed, *checks.check_signer(signed))


def sign(edge: str = "berlin", version: int = 1, **fields: object) -> SignedAnnouncement:
    """Sign an announcement of any edge as berlin."""
    return sign_announcement(announcement(edge, version, **fields), BERLIN)


def test_an_announcement_that_its_edge_has_signed_is_accepted() -> None:
    original = announcement("berlin", 1, shares={"bonn": 0.25})
    assert verify(sign_announcement(original, BERLIN)) == original


FAULTS: dict[str, tuple[Callable[[], SignedAnnouncement], str]] = {
    "another edge": (lambda: sign("bonn"), "berlin in DE claims to be bonn in DE"),
    "another region": (lambda: sign(region="US"), "berlin in DE claims to be berlin in US"),
    "another authority": (lambda: sign_announcement(announcement("berlin", 1), issue("berlin", FOREIGN)), "not issued"),
    "a share above 1": (lambda: sign(shares={"x": 1.5}), "shares; allowed: each from 0 to 1"),
    "shares that sum to more than 1": (lambda: sign(shares={"x": 0.7, "y": 0.7}), "a sum of at most 1"),
    "a negative version": (lambda: sign(version=-1), "version"),
    "a huge version": (lambda: sign(version=2**63 - 1), "version"),
    "a huge incarnation": (lambda: sign(incarnation=2**63 - 1), "incarnation"),
    "a negative publication": (lambda: sign(publication=-1), "the publication -1; allowed: 0 or more"),
    "too many bytes": (lambda: sign(schema="x" * MAX_ANNOUNCEMENT_BYTES), "allowed: at most 100000"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_false_announcement_is_refused_with_its_reason(fault: str) -> None:
    make, reason = FAULTS[fault]
    with pytest.raises(AnnouncementError, match=reason):
        verify(make())


def test_an_announcement_that_is_too_large_is_not_decoded() -> None:
    signed = SignedAnnouncement(b"not MessagePack" * MAX_ANNOUNCEMENT_BYTES, b"", b"")
    with pytest.raises(AnnouncementError, match="allowed: at most 100000"):
        read_head(signed)


def linked(count: int, name: str) -> Announcement:
    """An announcement with so many neighbours, the last of which have the largest shares, and a former neighbour."""
    names = [f"{name}{number:05}" for number in range(count)]
    shares = {name: 2 * number / count**2 for number, name in enumerate(names)}
    told = Link(share=0.1234, pulled=1_893_456_000.1, behind=300, bytes=2**40, failures=300, refused=300, state="mixed")
    links = dict.fromkeys(names, told) | {"a": Link()}
    return announcement("berlin", 2**40, shares=shares, vitals=Vitals(neighbours=tuple(names), links=links))


@pytest.mark.parametrize("name", ["x", "x" * 58], ids=["short", "long"])
@pytest.mark.parametrize("count", [999, 1001, 5000])
def test_an_edge_with_many_neighbours_tells_of_those_with_the_largest_shares(count: int, name: str) -> None:
    whole = linked(count, name)
    read = verify(sign_announcement(fit_limits(whole), BERLIN))
    told = read.vitals.neighbours
    assert len(told) > 150
    assert set(told) == set(sorted(whole.shares)[-len(told) :])
    assert set(read.shares) == set(told)
    assert set(read.vitals.links) - {"a"} == set(told)
    assert read.version == whole.version


def test_an_announcement_within_the_limits_stays_as_it_is() -> None:
    whole = linked(50, "x")
    assert fit_limits(whole) == whole


def test_an_announcement_that_was_changed_is_refused() -> None:
    signed = sign()
    newer = msgspec.structs.replace(signed, payload=msgspec.msgpack.encode(announcement("berlin", 2)))
    with pytest.raises(AnnouncementError, match="an announcement of berlin has a wrong signature"):
        verify(newer)
    with pytest.raises(AnnouncementError, match="certificate"):
        verify(msgspec.structs.replace(signed, certificate=b"nonsense"))


@pytest.mark.parametrize(
    "address", ["a..b:80", "x" * 64 + ":80", "host", "host:port", "", "ho st:80", "u@h:80", "h:80/x"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(AnnouncementError, match="allowed: host:port"):
        verify(sign(address=address))


@pytest.mark.parametrize(
    "address", ["berlin:1", "10.0.0.7:8443", "[::1]:8443", "a-b.example.com:8443", "under_score:1"]
)
def test_an_address_is_a_name_or_a_number_with_a_port(address: str) -> None:
    assert verify(sign(address=address)).address == address


DEEP = b"\x81\xa4more" + b"\x91" * 50_000 + b"\xc0"  # a list in a list in a list


@pytest.mark.parametrize(
    "payload", [b"", b"\xa4edge\xa2\xff\xff", b"\x81\xa4edge\xa2\xff\xff", b"\xc1", bytes(300), DEEP]
)
def test_a_payload_that_can_not_be_decoded_is_refused(payload: bytes) -> None:
    signature = BERLIN.key.sign(payload, SIGNATURE_ALGORITHM)
    with pytest.raises(AnnouncementError, match="can't be decoded"):
        verify(SignedAnnouncement(payload, signature, sign().certificate))
    with pytest.raises(AnnouncementError, match="can't be decoded"):
        read_head(SignedAnnouncement(payload, b"", b""))


def test_a_damaged_certificate_is_refused_whichever_byte_is_wrong() -> None:
    """Another curve, another algorithm, no certificate at all."""
    signed = sign()
    for place in range(0, len(signed.certificate), 7):
        damaged = bytearray(signed.certificate)
        damaged[place] ^= 0xFF
        with pytest.raises(AnnouncementError):
            verify(msgspec.structs.replace(signed, certificate=bytes(damaged)))


def test_a_heartbeat_counts_only_with_the_signature_of_its_edge() -> None:
    def beat(edge: str, pair: KeyPair, count: int = 5, time: int = 1000) -> Heartbeat:
        return sign_heartbeat(edge, pair.key, incarnation=2, count=count, time=time)

    def is_true(heartbeat: Heartbeat) -> bool:
        return verify_heartbeat("berlin", BERLIN.key.public_key(), heartbeat)

    true = beat("berlin", BERLIN)
    assert is_true(true)
    for false in (
        msgspec.structs.replace(true, signature=b""),
        msgspec.structs.replace(true, signature=b"x" * 70),
        msgspec.structs.replace(true, incarnation=3),
        msgspec.structs.replace(true, count=6),
        msgspec.structs.replace(true, time=1001),
        beat("bonn", BERLIN),
        beat("berlin", issue("bonn")),
    ):
        assert not is_true(false)


def test_the_head_of_an_announcement_tells_whether_it_is_news() -> None:
    older, newer = sign(incarnation=1, version=900), sign(incarnation=2, version=1)
    assert read_head(older).edge == "berlin"
    assert read_head(older).order < read_head(newer).order
    assert verify(older).order < verify(newer).order, "a restart is newer than any version before it"
