"""The folder of a fleet's authority keeps keys private and never replaces a certificate by mistake."""

import datetime as dt
import stat
from pathlib import Path

import pytest

from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import Identity, KeyPair, check_certificate, load_certificate
from alphaedge.errors import CertificateError, InvalidValue

NOW = dt.datetime(2030, 5, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    """A fleet with one edge."""
    made = CertificateFolder(tmp_path / "certs")
    made.init("shops", now=NOW, days=1000)
    made.issue("berlin", "DE", ["berlin", "10.0.0.7"], now=NOW, days=90)
    return made


def test_only_the_owner_can_read_keys(folder: CertificateFolder) -> None:
    names = {path.name for path in folder.path.iterdir()}
    assert names == {"ca.pem", "ca.key", "berlin.pem", "berlin.key", "issued.list"}
    for key in folder.path.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_nothing_is_replaced(folder: CertificateFolder) -> None:
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(InvalidValue, match="without an authority"):
        folder.init("shops", now=NOW, days=10)
    with pytest.raises(InvalidValue, match="renew it"):
        folder.issue("berlin", "DE", ["berlin"], now=NOW, days=90)
    with pytest.raises(InvalidValue, match="the authority's"):
        folder.issue("ca", "DE", ["berlin"], now=NOW, days=90)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_renewing_keeps_the_names_and_changes_the_key_even_after_expiry(folder: CertificateFolder) -> None:
    path, later = folder.path / "berlin.pem", NOW + 200 * DAY
    old = load_certificate(path.read_bytes())
    folder.renew(["berlin"], now=later, days=90)
    new = KeyPair.load(path.read_bytes(), path.with_suffix(".key").read_bytes()).certificate
    identity = check_certificate(new, load_certificate((folder.path / "ca.pem").read_bytes()), later)
    assert (identity.edge, identity.region, identity.hosts) == ("berlin", "DE", ("berlin", "10.0.0.7"))
    assert new.public_key() != old.public_key()
    with pytest.raises(InvalidValue, match="one of berlin"):
        folder.renew(["paris"], now=later, days=90)


def test_identities_say_which_certificates_must_not_be_used(folder: CertificateFolder) -> None:
    folder.issue("oslo", "NO", ["oslo"], now=NOW, days=7)
    identities = folder.identities(NOW + 8 * DAY)
    assert isinstance(identities["berlin"], Identity)
    assert isinstance(identities["oslo"], CertificateError)
    assert "expired at" in str(identities["oslo"])


def test_an_authority_that_has_expired_issues_nothing(folder: CertificateFolder) -> None:
    with pytest.raises(CertificateError, match="the authority's certificate expired at"):
        folder.issue("paris", "FR", ["paris"], now=NOW + 1001 * DAY, days=90)


def test_many_certificates_are_renewed_at_once_or_none(folder: CertificateFolder) -> None:
    folder.issue("oslo", "NO", ["oslo"], now=NOW, days=90)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(InvalidValue, match="one of berlin, oslo"):
        folder.renew(["berlin", "paris"], now=NOW, days=90)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
    assert set(folder.renew(["berlin", "oslo"], now=NOW + DAY, days=90)) == {"berlin", "oslo"}
    changed = {path.name for path in folder.path.iterdir() if path.read_bytes() != before[path.name]}
    assert changed == {"berlin.pem", "berlin.key", "oslo.pem", "oslo.key", "issued.list"}


def test_revoking_an_edge_revokes_all_its_certificates_up_to_now(folder: CertificateFolder) -> None:
    folder.renew(["berlin"], now=NOW + DAY, days=90)
    serials = {one.serial for one in folder.issued(NOW + DAY)}
    assert len(serials) == 2, "the old one is still valid"
    revoked = folder.revoke(["berlin"], (), now=NOW + 2 * DAY)
    assert {one.serial for one in revoked} == serials
    assert str(folder.identities(NOW + 2 * DAY)["berlin"]) == "revoked"
    folder.renew(["berlin"], now=NOW + 3 * DAY, days=90)
    assert isinstance(folder.identities(NOW + 3 * DAY)["berlin"], Identity), "a new certificate is valid again"


def test_the_number_of_the_list_grows_and_what_expired_long_ago_leaves_it(folder: CertificateFolder) -> None:
    assert folder.revocations().number == 0
    folder.revoke(["berlin"], (), now=NOW)
    assert folder.revoke(["berlin"], (), now=NOW) == []
    assert folder.revocations().number == 1, "nothing new, no new list"
    folder.revoke((), [0xABC], now=NOW)
    assert (folder.revocations().number, len(folder.revocations().revoked)) == (2, 2)
    folder.revoke((), [0xDEF], now=NOW + 121 * DAY)
    assert folder.revocations().number == 3
    assert folder.revocations().serials() == {0xABC, 0xDEF}, "an unknown certificate may be valid for ever"


def test_an_edge_without_a_valid_certificate_can_not_be_revoked(folder: CertificateFolder) -> None:
    with pytest.raises(InvalidValue, match="edge: found 'paris'; allowed: an edge with a valid certificate: berlin"):
        folder.revoke(["paris"], (), now=NOW)
    with pytest.raises(InvalidValue, match="none: nothing is valid here"):
        folder.revoke(["berlin"], (), now=NOW + 91 * DAY)
    assert not folder.revoked_file.exists()


def test_keys_are_pinned_only_while_a_revoked_edge_has_a_new_certificate(folder: CertificateFolder) -> None:
    folder.issue("oslo", "NO", ["oslo"], now=NOW, days=90)
    folder.revoke(["berlin"], (), now=NOW)
    assert folder.pinned_keys(NOW) == [], "without its user, berlin can't connect"
    folder.renew(["berlin"], now=NOW + DAY, days=90)
    revoked = folder.revocations().serials()
    valid = [one for one in folder.issued(NOW + DAY) if int(one.serial, 16) not in revoked]
    assert sorted(folder.pinned_keys(NOW + DAY)) == sorted(one.key for one in valid)
    assert {one.edge for one in valid} == {"berlin", "oslo"}
    assert folder.pinned_keys(NOW + 90.5 * DAY) == [], "the revoked certificate has expired"


def test_certificates_are_valid_from_a_day_before(folder: CertificateFolder) -> None:
    """A clock may be behind."""
    identity = folder.identities(NOW - 0.9 * DAY)["berlin"]
    assert isinstance(identity, Identity)
    assert identity.not_before == NOW - DAY
