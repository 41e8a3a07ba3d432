"""A revocation list counts if the fleet's authority has signed it and its number is higher than the known one's."""

import datetime as dt
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.trust.announcements import SIGNATURE_ALGORITHM, read_head
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import create_authority
from alphaedge.edge.trust.known_revocations import KnownRevocations
from alphaedge.edge.trust.revocations import (
    MAX_LIST_BYTES,
    RevocationList,
    RevokedCertificate,
    SignedRevocations,
    sign_revocations,
    verify_revocations,
)
from alphaedge.errors import AnnouncementError, CertificateError, ForgedAnnouncement, InvalidValue

from ..credentials import load_credentials, utc_now
from ..directories import announcement

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
AUTHORITY = create_authority("shops", now=NOW, days=1000)
FOREIGN = create_authority("shops", now=NOW, days=1000)


def signed(number: int, *serials: int) -> SignedRevocations:
    revoked = tuple(RevokedCertificate(f"{serial:x}", "berlin", "2030-04-01") for serial in serials)
    return sign_revocations(RevocationList(number, revoked), AUTHORITY)


def known(**files: Path) -> KnownRevocations:
    return KnownRevocations(lambda: AUTHORITY.certificate, **files)


@given(st.lists(st.integers(0, 9)))
def test_in_whatever_order_lists_arrive_the_highest_number_is_in_force(numbers: list[int]) -> None:
    store = known()
    for position, number in enumerate(numbers):
        is_newer = number > max([0, *numbers[:position]])
        assert store.offer(signed(number, 100 + number)) == is_newer
    newest = max([0, *numbers])
    assert store.number == newest
    assert [number for number in range(10) if store.is_revoked(100 + number)] == ([newest] if newest else [])


def test_a_list_survives_a_file() -> None:
    original = signed(3, 2**159 - 1, 7)
    again = SignedRevocations.from_file(original.to_file())
    assert again == original
    assert verify_revocations(again, AUTHORITY.certificate).serials() == {2**159 - 1, 7}


def forged() -> dict[str, SignedRevocations]:
    true = signed(5, 1)
    plain = AUTHORITY.key.sign(true.payload, SIGNATURE_ALGORITHM)
    return {
        "another authority": sign_revocations(RevocationList(9), FOREIGN),
        "another number": msgspec.structs.replace(true, payload=true.payload.replace(b"5", b"6", 1)),
        "no signature": msgspec.structs.replace(true, signature=b""),
        "signed for another purpose": msgspec.structs.replace(true, signature=plain),
        "no list": SignedRevocations(b"[]", b""),
        "not JSON": SignedRevocations(b"\xff", b""),
        "a huge number": SignedRevocations(b'{"number": 9223372036854775807}', b""),
        "no serial number": SignedRevocations(b'{"number": 9, "revoked": [{"serial": "x"}]}', b""),
        "too many bytes": SignedRevocations(b" " * (MAX_LIST_BYTES + 1), b""),
    }


@pytest.mark.parametrize("lie", list(forged()))
def test_a_list_that_the_authority_has_not_signed_is_refused(lie: str) -> None:
    store = known()
    store.offer(signed(1, 1))
    with pytest.raises(ForgedAnnouncement):
        store.offer(forged()[lie])
    assert (store.number, store.is_revoked(1)) == (1, True)


def test_a_list_is_not_decoded_before_its_signature_is_verified() -> None:
    with pytest.raises(ForgedAnnouncement, match="not signed by this fleet's authority"):
        known().offer(SignedRevocations(b'{"number": 9, "revoked": "nonsense"}', b""))


def test_a_list_that_is_too_large_for_edges_is_not_signed() -> None:
    too_many = [RevokedCertificate(f"{n:040x}", "berlin", "2030-01-01") for n in range(10_000)]
    with pytest.raises(InvalidValue, match=r"revoked.*10,000 certificates.*at most 500,000 bytes"):
        sign_revocations(RevocationList(1, tuple(too_many)), AUTHORITY)


def test_without_certificates_no_list_is_believed() -> None:
    with pytest.raises(ForgedAnnouncement, match="no certificates"):
        KnownRevocations().offer(signed(1, 1))


def test_an_edge_keeps_the_newest_list_that_it_hears_of(tmp_path: Path) -> None:
    file, kept = tmp_path / "certs.list", tmp_path / "kept.list"
    file.write_bytes(signed(2, 2).to_file())
    store = known(file=file, kept=kept)
    assert (store.number, kept.exists()) == (2, False)
    store.offer(signed(3, 3))
    assert known(file=file, kept=kept).number == 3, "after a restart too"
    file.write_bytes(signed(1, 1).to_file())
    assert not store.refresh(), "an older file changes nothing"
    file.write_bytes(signed(4, 4).to_file())
    assert store.refresh()
    assert store.is_revoked(4)
    file.write_bytes(b"half a li")
    assert not store.refresh()
    assert store.number == 4


def test_a_file_that_could_not_be_read_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file need not get a new time when it becomes readable: its permissions change, or a writer is quick."""
    file, whole = tmp_path / "revoked.list", signed(2, 2).to_file()
    store = known(file=file)

    def is_taken() -> bool:
        os.utime(file, ns=(10**18, 10**18))
        return store.refresh()

    file.mkdir()
    assert not is_taken()
    file.rmdir()
    file.write_bytes(whole[: len(whole) // 2])
    assert not is_taken()
    assert not is_taken()
    assert caplog.messages == ["revocations_refused"] * 2, "each error is logged once"
    file.write_bytes(whole)
    assert is_taken()
    assert store.is_revoked(2)


def test_a_new_authority_counts_its_lists_from_the_beginning(tmp_path: Path) -> None:
    current = [AUTHORITY]
    store = KnownRevocations(lambda: current[0].certificate, tmp_path / "revoked.list")
    store.offer(signed(7, 7))
    current[0] = FOREIGN
    (tmp_path / "revoked.list").write_bytes(sign_revocations(RevocationList(1), FOREIGN).to_file())
    assert store.refresh()
    assert (store.number, store.is_revoked(7)) == (1, False)


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    made = CertificateFolder(tmp_path)
    made.init("shops", now=utc_now(), days=100)
    for edge in ("berlin", "bonn"):
        made.issue(edge, "DE", ["127.0.0.1"], now=utc_now(), days=50)
    return made


def test_a_revoked_certificate_is_refused_wherever_it_is_read_and_a_new_one_is_not(folder: CertificateFolder) -> None:
    berlin, bonn = load_credentials(folder.path, "berlin"), load_credentials(folder.path, "bonn")
    der = bonn.sign(announcement("bonn", 1)).certificate
    before = bonn.sign(announcement("bonn", 1))
    assert berlin.identify(der, {}).edge == "bonn"
    assert berlin.verify(before).edge == "bonn"
    folder.revoke(["bonn"], (), now=utc_now())
    assert berlin.refresh()
    with pytest.raises(CertificateError, match="of bonn is revoked"):
        berlin.identify(der, {})
    with pytest.raises(AnnouncementError, match="of bonn is revoked"):
        berlin.verify(before)
    assert berlin.is_revoked(before)
    folder.renew(["bonn"], now=utc_now(), days=50)
    assert bonn.refresh()
    after = bonn.sign(announcement("bonn", 1))
    assert berlin.verify(after).order > read_head(before).order
    assert berlin.identify(after.certificate, {}).edge == "bonn"


def test_an_edge_that_is_revoked_says_so_once(folder: CertificateFolder, caplog: pytest.LogCaptureFixture) -> None:
    bonn = load_credentials(folder.path, "bonn")
    folder.revoke(["bonn"], (), now=utc_now())
    for _ in range(3):
        bonn.refresh()
    assert caplog.messages.count("own_certificate_revoked") == 1
