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
    assert {path.name for path in folder.path.iterdir()} == {"ca.pem", "ca.key", "berlin.pem", "berlin.key"}
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
    folder.renew("berlin", now=later, days=90)
    new = KeyPair.load(path.read_bytes(), path.with_suffix(".key").read_bytes()).certificate
    identity = check_certificate(new, load_certificate((folder.path / "ca.pem").read_bytes()), later)
    assert (identity.edge, identity.region, identity.hosts) == ("berlin", "DE", ("berlin", "10.0.0.7"))
    assert new.public_key() != old.public_key()
    with pytest.raises(InvalidValue, match="one of berlin"):
        folder.renew("paris", now=later, days=90)


def test_identities_say_which_certificates_must_not_be_used(folder: CertificateFolder) -> None:
    folder.issue("oslo", "NO", ["oslo"], now=NOW, days=7)
    identities = folder.identities(NOW + 8 * DAY)
    assert isinstance(identities["berlin"], Identity)
    assert isinstance(identities["oslo"], CertificateError)
    assert "expired at" in str(identities["oslo"])


def test_an_authority_that_has_expired_issues_nothing(folder: CertificateFolder) -> None:
    with pytest.raises(CertificateError, match="the authority's certificate expired at"):
        folder.issue("paris", "FR", ["paris"], now=NOW + 1001 * DAY, days=90)
