"""Certificates of a fleet: what they say, and which are refused with what reason."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from alphaedge.edge.trust.certificates import (
    KeyPair,
    check_certificate,
    create_authority,
    issue_certificate,
    load_certificate,
)
from alphaedge.errors import CertificateError, InvalidValue

NOW = dt.datetime(2030, 5, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def new_authority() -> KeyPair:
    return create_authority("shops", now=NOW, days=1000)


def issue(authority: KeyPair, edge: str = "berlin") -> KeyPair:
    return issue_certificate(authority, edge, "DE", ["berlin.example.com", "10.0.0.7", "::1"], now=NOW, days=90)


def test_a_certificate_names_edge_region_hosts_and_expiry() -> None:
    authority = new_authority()
    identity = check_certificate(issue(authority).certificate, authority.certificate, NOW)
    assert (identity.edge, identity.region) == ("berlin", "DE")
    assert identity.hosts == ("berlin.example.com", "10.0.0.7", "::1")
    assert identity.not_after == NOW + 90 * DAY


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        (NOW - 2 * DAY, "the authority's certificate is not valid before 2030-04-30"),
        (NOW + 91 * DAY, "the edge's certificate expired at 2030-07-30"),
    ],
)
def test_a_certificate_is_refused_before_and_after_its_time(when: dt.datetime, reason: str) -> None:
    authority = new_authority()
    with pytest.raises(CertificateError, match=reason):
        check_certificate(issue(authority).certificate, authority.certificate, when)


def test_a_certificate_of_another_fleet_with_the_same_name_is_refused() -> None:
    with pytest.raises(CertificateError, match="not issued by this fleet's authority"):
        check_certificate(issue(new_authority()).certificate, new_authority().certificate, NOW)


def test_an_edge_can_not_issue_certificates() -> None:
    authority = new_authority()
    false = issue_certificate(issue(authority), "paris", "FR", ["paris"], now=NOW, days=10)
    with pytest.raises(CertificateError, match="not issued"):
        check_certificate(false.certificate, authority.certificate, NOW)


def sign(
    authority: KeyPair, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, *names: x509.NameAttribute
) -> x509.Certificate:
    """Sign a certificate that ``issue_certificate`` would refuse to make."""
    builder = x509.CertificateBuilder().subject_name(x509.Name(names)).issuer_name(authority.certificate.subject)
    builder = builder.public_key(key).serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    return builder.sign(authority.key, hashes.SHA256())


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (rsa.generate_private_key(65537, 1024), "1024 bits; allowed: at least 2048"),
        (ec.generate_private_key(ec.SECP192R1()), "secp192r1; allowed: at least 256"),
    ],
)
def test_a_weak_key_is_refused(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, reason: str) -> None:
    authority = new_authority()
    weak = sign(authority, key.public_key(), x509.NameAttribute(NameOID.COMMON_NAME, "berlin"))
    with pytest.raises(CertificateError, match=reason):
        check_certificate(weak, authority.certificate, NOW)


@pytest.mark.parametrize(
    ("edges", "missing"), [((), "edge"), (("berlin",), "region"), (("berlin", "paris"), "edge"), (("a b",), "edge")]
)
def test_a_certificate_without_one_edge_and_one_region_is_refused(edges: tuple[str, ...], missing: str) -> None:
    authority, key = new_authority(), ec.generate_private_key(ec.SECP256R1()).public_key()
    names = [x509.NameAttribute(NameOID.COMMON_NAME, edge) for edge in edges]
    with pytest.raises(CertificateError, match=f"names no {missing}"):
        check_certificate(sign(authority, key, *names), authority.certificate, NOW)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 64, "ö", "a\n"])
def test_an_invalid_name_is_refused(name: str) -> None:
    authority = new_authority()
    with pytest.raises(InvalidValue, match="edge: found"):
        issue_certificate(authority, name, "DE", ["x"], now=NOW, days=1)
    with pytest.raises(InvalidValue, match="region: found"):
        issue_certificate(authority, "berlin", name, ["x"], now=NOW, days=1)


@pytest.mark.parametrize("hosts", [[], [""], ["a b"], ["-a"], ["a/b"], ["*.example.com"]])
def test_invalid_hosts_are_refused(hosts: list[str]) -> None:
    with pytest.raises(InvalidValue, match="hosts: found"):
        issue_certificate(new_authority(), "berlin", "DE", hosts, now=NOW, days=1)


def test_no_certificate_outlives_its_authority() -> None:
    authority = create_authority("shops", now=NOW, days=30)
    with pytest.raises(CertificateError, match="expires in 30 days"):
        issue_certificate(authority, "berlin", "DE", ["x"], now=NOW, days=31)


def test_a_key_of_another_certificate_is_refused() -> None:
    authority = new_authority()
    one, other = issue(authority), issue(authority)
    assert KeyPair.load(one.certificate_pem(), one.key_pem()).certificate == one.certificate
    with pytest.raises(CertificateError, match="belongs to another"):
        KeyPair.load(one.certificate_pem(), other.key_pem())


def test_files_that_are_not_pem_are_refused() -> None:
    pair = issue(new_authority())
    for key in (b"", b"nonsense", pair.certificate_pem()):
        with pytest.raises(CertificateError, match="the private key can't be read"):
            KeyPair.load(pair.certificate_pem(), key)
    with pytest.raises(CertificateError, match="the certificate can't be read"):
        load_certificate(b"nonsense")
