"""Certificates: a private authority for a fleet, and one certificate for each of its edges.

An edge's certificate names the edge (common name), its region (organisational unit, which policies refer to) and the
hosts under which peers reach it. Both ends of every connection between edges present theirs, so no edge can claim the
name or the region of another. Keys are on the curve P-256. The key of the authority stays with the fleet's operator.
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
from alphaedge.names import NAME_PATTERN, check_name

CLOCK_TOLERANCE: Final = dt.timedelta(days=1)  # a new certificate is valid from a day ago: a clock may be behind
MIN_RSA_BITS: Final = 2048
MIN_CURVE_BITS: Final = 256
KEY_PURPOSES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
HOST_PATTERN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
MAX_HOST_CHARACTERS: Final = 253


@final
@dataclass(frozen=True)
class Identity:
    """What a certificate says about an edge, when the certificate is valid, and its serial number."""

    edge: str
    region: str
    hosts: tuple[str, ...]
    not_before: dt.datetime
    not_after: dt.datetime
    serial: int = 0


@final
@dataclass(frozen=True)
class KeyPair:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        """Encode the certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """Encode the key as PEM, not encrypted: anyone who can read it can act as the edge."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @classmethod
    def load(cls, certificate_pem: bytes, key_pem: bytes) -> "KeyPair":
        """Load a certificate and its key from PEM; refuse a key that belongs to another certificate."""
        certificate = load_certificate(certificate_pem)
        try:
            key = serialization.load_pem_private_key(key_pem, password=None)
        except (ValueError, TypeError) as error:
            raise CertificateError(f"the private key can't be read ({error})") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError(f"the private key is {type(key).__name__}; allowed: an elliptic curve key")
        if key.public_key() != certificate.public_key():
            raise CertificateError("the private key belongs to another certificate")
        return cls(certificate, key)


def load_certificate(pem: bytes) -> x509.Certificate:
    """Load a certificate from PEM."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError(f"the certificate can't be read ({error})") from error


def create_authority(fleet: str, *, now: dt.datetime, days: int) -> KeyPair:
    """Create the authority of a fleet: a self-signed certificate that may sign edges and nothing else."""
    check_name("fleet", fleet)
    check_number("days", days, low=1, whole=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, fleet)])
    builder = _start_certificate(name, name, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def issue_certificate(
    authority: KeyPair, edge: str, region: str, hosts: Sequence[str], *, now: dt.datetime, days: int
) -> KeyPair:
    """Issue a certificate with a new key. It never outlives the authority.

    hosts: names or addresses under which peers reach the edge. days: how long the certificate is valid.
    """
    check_name("edge", edge)
    check_name("region", region)
    check_number("days", days, low=1, whole=True)
    if not hosts:
        raise InvalidValue("hosts", list(hosts), "at least one name or address")
    left = authority.certificate.not_valid_after_utc - now
    if left <= dt.timedelta(days=days):
        raise CertificateError(
            f"the authority's certificate expires in {max(0, left.days)} days; allowed: fewer than that, not {days}"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, region),
            x509.NameAttribute(NameOID.COMMON_NAME, edge),
        ]
    )
    builder = _start_certificate(name, authority.certificate.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(KEY_PURPOSES), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(h) for h in hosts]), critical=False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def read_identity(certificate: x509.Certificate) -> Identity:
    """Read the identity in a certificate; refuse one without exactly one edge and one region."""
    names = {}
    for field, oid in (("edge", NameOID.COMMON_NAME), ("region", NameOID.ORGANIZATIONAL_UNIT_NAME)):
        values = [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid)]
        if len(values) != 1 or not re.fullmatch(NAME_PATTERN, values[0]):
            raise CertificateError(f"the certificate names no {field} (found {values}; allowed: one valid name)")
        names[field] = values[0]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
        hosts = (*alternatives.get_values_for_type(x509.DNSName), *addresses)
    except x509.ExtensionNotFound:
        hosts = ()
    return Identity(
        edge=names["edge"],
        region=names["region"],
        hosts=hosts,
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        serial=certificate.serial_number,
    )


def check_certificate(certificate: x509.Certificate, authority: x509.Certificate, now: dt.datetime) -> Identity:
    """Return the identity in a certificate; refuse one that is weak, expired, not valid yet or of another authority."""
    for owner, one in (("authority's", authority), ("edge's", certificate)):
        _check_strength(owner, one)
        check_time(owner, one.not_valid_before_utc, one.not_valid_after_utc, now)
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError("the certificate was not issued by this fleet's authority") from error
    return read_identity(certificate)


def check_time(owner: str, not_before: dt.datetime, not_after: dt.datetime, now: dt.datetime) -> None:
    """Refuse a certificate that is not valid yet, or no longer. owner: whose it is."""
    if now < not_before:
        raise CertificateError(f"the {owner} certificate is not valid before {not_before:%Y-%m-%d %H:%M} UTC")
    if now > not_after:
        raise CertificateError(f"the {owner} certificate expired at {not_after:%Y-%m-%d %H:%M} UTC")


def _check_strength(owner: str, certificate: x509.Certificate) -> None:
    key, algorithm = certificate.public_key(), certificate.signature_hash_algorithm
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        raise CertificateError(f"the {owner} RSA key has {key.key_size} bits; allowed: at least {MIN_RSA_BITS}")
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.key_size < MIN_CURVE_BITS:
        raise CertificateError(
            f"the {owner} key is on the curve {key.curve.name}; allowed: at least {MIN_CURVE_BITS} bits"
        )
    if not isinstance(
        key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | ed448.Ed448PublicKey
    ):
        raise CertificateError(f"the {owner} key is {type(key).__name__}; allowed: RSA or an elliptic curve")
    if isinstance(algorithm, hashes.MD5 | hashes.SHA1):
        raise CertificateError(f"the {owner} certificate is signed with {algorithm.name}; allowed: SHA-256 or better")


def _start_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if len(host) > MAX_HOST_CHARACTERS or not HOST_PATTERN.fullmatch(host):
        raise InvalidValue("hosts", host, "a host name or an IP address")
    return x509.DNSName(host)
