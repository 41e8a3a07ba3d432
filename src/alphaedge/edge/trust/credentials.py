"""Whom an edge believes: certificates of the fleet on both ends, or, on one machine for trying out, anybody's word."""

import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, final

import msgspec
from cryptography import x509

from alphaedge.edge.trust.announcements import (
    Announcement,
    SignedAnnouncement,
    read,
    sign,
    sign_beat,
    verify,
    verify_beat,
)
from alphaedge.edge.trust.certificates import Identity, Pair, check, identity, load_certificate
from alphaedge.errors import CertificateError, InvalidValue

NAME: Final = "x-alphaedge-edge"


class Credentials(Protocol):
    """Who is at the other end, and who has said what."""

    @property
    def scheme(self) -> str:
        """Of URLs."""
        ...

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext | None:
        """For one end of connections."""
        ...

    def headers(self) -> Mapping[str, str]:
        """What this end says of itself in a request."""
        ...

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """Who is at the other end, by what it shows; ``CertificateError`` if that is not enough."""
        ...

    def sign(self, about: Announcement) -> SignedAnnouncement:
        """A record of this edge."""
        ...

    def verify(self, record: SignedAnnouncement) -> Announcement:
        """What a record says, or ``RecordError``."""
        ...

    def sign_beat(self, beat: int) -> bytes:
        """The own signature under a sign of life."""
        ...

    def genuine(self, record: SignedAnnouncement, beat: int, signature: bytes) -> bool:
        """Whether the edge of a record that was verified before has signed a sign of life."""
        ...

    def refresh(self) -> bool:
        """Take up certificates that were renewed; whether there were any."""
        ...


@final
@dataclass
class CertificateCredentials:
    """Mutual TLS with certificates of one authority. A renewed certificate is taken up without a restart."""

    certificate: Path
    key: Path
    authority: Path
    now: Callable[[], dt.datetime]
    scheme: str = "https"
    _contexts: list[ssl.SSLContext] = field(default_factory=list)
    _stamp: int = -1

    def __post_init__(self) -> None:
        self.refresh()

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """Both ends must show a certificate of the fleet."""
        made = ssl.create_default_context(purpose, cafile=str(self.authority))
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_cert_chain(self.certificate, self.key)
        self._contexts.append(made)
        return made

    def headers(self) -> Mapping[str, str]:
        """Nothing: the certificate says it."""
        return {}

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """See ``Credentials``."""
        if certificate is None:
            raise CertificateError("the other end shows no certificate")
        return check(x509.load_der_x509_certificate(certificate), self._trusted, self.now())

    def sign(self, about: Announcement) -> SignedAnnouncement:
        """See ``Credentials``."""
        return sign(about, self._pair)

    def verify(self, record: SignedAnnouncement) -> Announcement:
        """See ``Credentials``."""
        return verify(record, self._trusted, self.now())

    def sign_beat(self, beat: int) -> bytes:
        """See ``Credentials``."""
        return sign_beat(identity(self._pair.certificate).edge, beat, self._pair)

    def genuine(self, record: SignedAnnouncement, beat: int, signature: bytes) -> bool:
        """See ``Credentials``."""
        return verify_beat(record, beat, signature)

    def refresh(self) -> bool:
        """See ``Credentials``. Connections that are open stay as they are."""
        stamp = max(path.stat().st_mtime_ns for path in (self.certificate, self.key))
        if stamp == self._stamp:
            return False
        self._pair = Pair.load(self.certificate.read_bytes(), self.key.read_bytes())
        self._trusted = load_certificate(self.authority.read_bytes())
        for context in self._contexts:
            context.load_cert_chain(self.certificate, self.key)
        first, self._stamp = self._stamp < 0, stamp
        return not first


@final
@dataclass(frozen=True)
class InsecureCredentials:
    """No certificates: everybody is whom he says he is. Only between edges of one machine."""

    edge: str
    region: str
    scheme: str = "http"

    def context(self, purpose: ssl.Purpose) -> None:
        """None: nothing is encrypted."""

    def headers(self) -> Mapping[str, str]:
        """The own name and region."""
        return {NAME: f"{self.edge} {self.region}"}

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """See ``Credentials``."""
        edge, _, region = headers.get(NAME, "").partition(" ")
        if not edge or not region:
            raise CertificateError("the other end does not say who it is")
        always = (dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC))
        return Identity(edge, region, (), *always)

    def sign(self, about: Announcement) -> SignedAnnouncement:
        """See ``Credentials``."""
        return SignedAnnouncement(msgspec.msgpack.encode(about), b"", b"")

    def verify(self, record: SignedAnnouncement) -> Announcement:
        """See ``Credentials``."""
        return read(record)

    def sign_beat(self, beat: int) -> bytes:
        """See ``Credentials``."""
        return b""

    def genuine(self, record: SignedAnnouncement, beat: int, signature: bytes) -> bool:
        """See ``Credentials``."""
        return True

    def refresh(self) -> bool:
        """See ``Credentials``."""
        return False


def check_loopback(field: str, address: str) -> None:
    """Refuse an address, host:port or host, that is not on this machine."""
    host = address.rpartition(":")[0] if ":" in address and not address.endswith("]") else address
    try:
        good = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        good = False
    if not good:
        raise InvalidValue(field, address, "an address on loopback with --insecure; elsewhere edges need certificates")
