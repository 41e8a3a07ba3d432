"""How an edge proves who it is and checks who its peers are.

With certificates of the fleet on both ends, or, for trying things out on one machine, without any.
"""

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
    decode_announcement,
    sign_announcement,
    sign_heartbeat,
    verify_announcement,
    verify_heartbeat,
)
from alphaedge.edge.trust.certificates import Identity, KeyPair, check_certificate, load_certificate, read_identity
from alphaedge.errors import CertificateError, InvalidValue

IDENTITY_HEADER: Final = "x-alphaedge-edge"


class Credentials(Protocol):
    """Identifies both ends of a connection, and signs and verifies what edges say in the directory."""

    @property
    def scheme(self) -> str:
        """The scheme of peers' URLs."""
        ...

    def ssl_context(self, purpose: ssl.Purpose) -> ssl.SSLContext | None:
        """Create the context for one end of connections; None without encryption."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return the headers with which this edge identifies itself in a request."""
        ...

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """Identify the other end by its certificate (DER) or its headers, or raise ``CertificateError``."""
        ...

    def sign(self, announcement: Announcement) -> SignedAnnouncement:
        """Sign an announcement of this edge."""
        ...

    def verify(self, signed: SignedAnnouncement) -> Announcement:
        """Decode an announcement that its edge has signed, or raise ``AnnouncementError``."""
        ...

    def sign_heartbeat(self, heartbeat: int) -> bytes:
        """Sign a heartbeat of this edge."""
        ...

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: int, signature: bytes) -> bool:
        """Check that the edge of an announcement, which was verified before, has signed a heartbeat."""
        ...

    def refresh(self) -> bool:
        """Load renewed certificates; True if there were any."""
        ...


@final
@dataclass
class CertificateCredentials:
    """Mutual TLS with certificates of one authority. Renewed certificates are used without a restart.

    certificate, key: PEM files of this edge. authority: PEM file of the fleet's authority.
    """

    certificate: Path
    key: Path
    authority: Path
    now: Callable[[], dt.datetime]
    scheme: str = "https"
    _contexts: list[ssl.SSLContext] = field(default_factory=list)
    _modified: int = -1

    def __post_init__(self) -> None:
        self.refresh()

    def ssl_context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """Create a context that demands a certificate of the fleet from the other end."""
        context = ssl.create_default_context(purpose, cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.certificate, self.key)
        self._contexts.append(context)
        return context

    def headers(self) -> Mapping[str, str]:
        """Return no headers: the certificate identifies this edge."""
        return {}

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """See ``Credentials``."""
        if certificate is None:
            raise CertificateError("the other end presents no certificate")
        return check_certificate(x509.load_der_x509_certificate(certificate), self._trusted, self.now())

    def sign(self, announcement: Announcement) -> SignedAnnouncement:
        """See ``Credentials``."""
        return sign_announcement(announcement, self._pair)

    def verify(self, signed: SignedAnnouncement) -> Announcement:
        """See ``Credentials``."""
        return verify_announcement(signed, self._trusted, self.now())

    def sign_heartbeat(self, heartbeat: int) -> bytes:
        """See ``Credentials``."""
        return sign_heartbeat(read_identity(self._pair.certificate).edge, heartbeat, self._pair)

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: int, signature: bytes) -> bool:
        """See ``Credentials``."""
        return verify_heartbeat(signed, heartbeat, signature)

    def refresh(self) -> bool:
        """See ``Credentials``. Open connections keep the certificate that they were made with."""
        modified = max(path.stat().st_mtime_ns for path in (self.certificate, self.key))
        if modified == self._modified:
            return False
        self._pair = KeyPair.load(self.certificate.read_bytes(), self.key.read_bytes())
        self._trusted = load_certificate(self.authority.read_bytes())
        for context in self._contexts:
            context.load_cert_chain(self.certificate, self.key)
        is_first, self._modified = self._modified < 0, modified
        return not is_first


@final
@dataclass(frozen=True)
class InsecureCredentials:
    """No certificates: every edge is who it claims to be. Only between edges on one machine."""

    edge: str
    region: str
    scheme: str = "http"

    def ssl_context(self, purpose: ssl.Purpose) -> None:
        """Return None: nothing is encrypted."""

    def headers(self) -> Mapping[str, str]:
        """Return a header with this edge's name and region."""
        return {IDENTITY_HEADER: f"{self.edge} {self.region}"}

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """See ``Credentials``."""
        edge, _, region = headers.get(IDENTITY_HEADER, "").partition(" ")
        if not edge or not region:
            raise CertificateError(f"the other end does not identify itself; expected: {IDENTITY_HEADER}: EDGE REGION")
        always = (dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC))
        return Identity(edge, region, (), *always)

    def sign(self, announcement: Announcement) -> SignedAnnouncement:
        """See ``Credentials``."""
        return SignedAnnouncement(msgspec.msgpack.encode(announcement), b"", b"")

    def verify(self, signed: SignedAnnouncement) -> Announcement:
        """See ``Credentials``."""
        return decode_announcement(signed)

    def sign_heartbeat(self, heartbeat: int) -> bytes:
        """See ``Credentials``."""
        return b""

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: int, signature: bytes) -> bool:
        """See ``Credentials``."""
        return True

    def refresh(self) -> bool:
        """See ``Credentials``."""
        return False


def check_loopback(field: str, address: str) -> None:
    """Refuse an address, host:port or host, that is not on this machine."""
    host = address.rpartition(":")[0] if ":" in address and not address.endswith("]") else address
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise InvalidValue(field, address, "a loopback address with --insecure; elsewhere edges need certificates")
