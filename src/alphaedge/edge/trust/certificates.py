"""Certificates: a private authority for a fleet, and one certificate for each of its edges.

An edge's certificate says who it is (common name), where it is (organisational unit: the region that policies speak
of) and under which names others reach it. Both ends of every connection between edges show theirs, so nobody can
claim another's id or region. Keys are on the curve P-256; the authority's key stays with whoever runs the fleet.
"""

import datetime as dt
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from alphaedge.errors import CertificateError, InvalidValue, check_number
from alphaedge.names import NAME, check_name

EARLY: Final = dt.timedelta(minutes=5)  # a new certificate holds from a little before now: clocks differ
SMALLEST_RSA: Final = 2048
SMALLEST_CURVE: Final = 256
USES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@final
@dataclass(frozen=True)
class Identity:
    """What a certificate says of an edge."""

    edge: str
    region: str
    hosts: tuple[str, ...]
    begins: dt.datetime
    ends: dt.datetime


@final
@dataclass(frozen=True)
class Pair:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        """The certificate as a PEM file."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """The key as a PEM file, not encrypted: who can read it is the edge."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> "Pair":
        """From two PEM files that belong together."""
        found = load_certificate(certificate)
        try:
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise CertificateError(f"the private key can't be read ({error})") from error
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise CertificateError(f"the private key is {type(private).__name__}, not on an elliptic curve")
        if private.public_key() != found.public_key():
            raise CertificateError("the private key belongs to another certificate")
        return cls(found, private)


def load_certificate(pem: bytes) -> x509.Certificate:
    """A certificate from a PEM file."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError(f"the certificate can't be read ({error})") from error


def create_authority(fleet: str, *, now: dt.datetime, days: int) -> Pair:
    """A new authority for a fleet of that name: a self-signed certificate that may sign edges and nothing else."""
    check_name("fleet", fleet)
    check_number("days", days, low=1, whole=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, fleet)])
    builder = _builder(name, name, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, edge: str, region: str, hosts: Sequence[str], *, now: dt.datetime, days: int) -> Pair:
    """A certificate with a new key for an edge that others reach under ``hosts`` (names or addresses).

    It never outlives its authority.
    """
    check_name("edge", edge)
    check_name("region", region)
    check_number("days", days, low=1, whole=True)
    if not hosts:
        raise InvalidValue("hosts", list(hosts), "at least one name or address")
    left = authority.certificate.not_valid_after_utc - now
    if left <= dt.timedelta(days=days):
        raise CertificateError(
            f"the authority's certificate ends in {max(0, left.days)} days, before a certificate of {days} days would"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, region),
            x509.NameAttribute(NameOID.COMMON_NAME, edge),
        ]
    )
    builder = _builder(name, authority.certificate.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(USES), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def identity(certificate: x509.Certificate) -> Identity:
    """Who a certificate is for; refuses one that says too little."""
    found = {}
    for what, oid in (("edge", NameOID.COMMON_NAME), ("region", NameOID.ORGANIZATIONAL_UNIT_NAME)):
        values = [str(a.value) for a in certificate.subject.get_attributes_for_oid(oid)]
        if len(values) != 1 or not re.fullmatch(NAME, values[0]):
            raise CertificateError(f"the certificate names no {what} ({values}): it is not an edge's")
        found[what] = values[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    except x509.ExtensionNotFound:
        hosts = []
    return Identity(
        found["edge"], found["region"], tuple(hosts), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    )


def check(certificate: x509.Certificate, authority: x509.Certificate, now: dt.datetime) -> Identity:
    """Refuse a certificate that is weak, expired, not valid yet, or signed by somebody else."""
    for what, one in (("authority's", authority), ("edge's", certificate)):
        _check_strength(what, one)
        if now < one.not_valid_before_utc:
            raise CertificateError(
                f"the {what} certificate begins only at {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            )
        if now > one.not_valid_after_utc:
            raise CertificateError(f"the {what} certificate ended at {one.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError("the certificate was not issued by this fleet's authority") from error
    return identity(certificate)


def _check_strength(what: str, certificate: x509.Certificate) -> None:
    key, algorithm = certificate.public_key(), certificate.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < SMALLEST_RSA:
        raise CertificateError(f"the {what} key has {key.key_size} bits; at least {SMALLEST_RSA} for RSA")
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.key_size < SMALLEST_CURVE:
        raise CertificateError(f"the {what} key is on {key.curve.name}; at least {SMALLEST_CURVE} bits for a curve")
    if not isinstance(
        key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey
    ):
        raise CertificateError(f"the {what} key is {type(key).__name__}; RSA or an elliptic curve")
    if isinstance(algorithm, hashes.MD5 | hashes.SHA1):
        raise CertificateError(f"the {what} certificate is signed with {algorithm.name}; SHA-256 or better")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if len(host) > 253 or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise InvalidValue("hosts", host, "a host name or an IP address")
    return x509.DNSName(host)
