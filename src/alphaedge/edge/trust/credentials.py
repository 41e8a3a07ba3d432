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
from weakref import WeakSet

import msgspec

from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.announcements import (
    Announcement,
    SignedAnnouncement,
    decode_announcement,
    sign_announcement,
    verify_announcement,
)
from alphaedge.edge.trust.certificate_checks import CertificateChecks
from alphaedge.edge.trust.certificates import Identity, KeyPair, load_certificate, read_identity
from alphaedge.edge.trust.expiry import ExpiryAlarm
from alphaedge.edge.trust.heartbeats import Heartbeat, sign_heartbeat, verify_heartbeat
from alphaedge.edge.trust.incarnation import Incarnation
from alphaedge.edge.trust.known_revocations import KnownRevocations
from alphaedge.edge.trust.policy import Member
from alphaedge.edge.trust.revocations import REVOKED_FILE
from alphaedge.errors import CertificateError, ForgedAnnouncement, InvalidValue

IDENTITY_HEADER: Final = "x-alphaedge-edge"
Ban = Callable[[Member], str | None]
"""Returns the rule that bans a member; None if there is none."""


class Credentials(Protocol):
    """Identifies both ends of a connection, and signs and verifies what edges say in the directory."""

    @property
    def incarnation(self) -> Incarnation:
        """The incarnation of this edge, which is part of whatever it signs."""
        ...

    @property
    def revocations(self) -> KnownRevocations:
        """The revocation list in force."""
        ...

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
        """Identify the other end by its certificate (DER) or its headers.

        Raises ``CertificateError`` if it can't be identified, or is revoked or banned.
        """
        ...

    def sign(self, announcement: Announcement) -> SignedAnnouncement:
        """Sign an announcement of this edge, in its incarnation."""
        ...

    def verify(self, signed: SignedAnnouncement) -> Announcement:
        """Decode an announcement that its edge has signed, or raise ``AnnouncementError``."""
        ...

    def is_revoked(self, signed: SignedAnnouncement) -> bool:
        """Whether the certificate of an announcement, which was verified before, has been revoked since."""
        ...

    def ban(self, member: Member) -> str | None:
        """Return the rule that bans a member; None if there is none."""
        ...

    def sign_heartbeat(self, count: int, time: int) -> Heartbeat:
        """Sign a heartbeat of this edge, in its incarnation."""
        ...

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: Heartbeat) -> None:
        """Raise ``AnnouncementError`` unless the edge of an announcement, verified before, has signed a heartbeat."""
        ...

    def refresh(self) -> bool:
        """Load a renewed certificate, which begins a new incarnation, and a new list; True if there is news to tell."""
        ...

    def days_left(self) -> float | None:
        """Days until this edge's certificate expires; None without one."""
        ...


@final
@dataclass
class CertificateCredentials:
    """Mutual TLS with certificates of one authority. Renewed certificates are used without a restart.

    certificate, key: PEM files of this edge. authority: PEM file of the fleet's authority; a revocation list may stand
    beside it. kept: where the edge keeps the newest list that it hears of.
    """

    certificate: Path
    key: Path
    authority: Path
    now: Callable[[], dt.datetime]
    incarnation: Incarnation = field(default_factory=Incarnation)
    banned: Ban = lambda _: None
    kept: Path | None = None
    scheme: str = "https"
    _contexts: WeakSet[ssl.SSLContext] = field(default_factory=WeakSet)
    _modified: int = -1
    _alarm: ExpiryAlarm = field(default_factory=ExpiryAlarm)

    def __post_init__(self) -> None:
        self._load()
        list_file = self.authority.with_name(REVOKED_FILE)
        self.revocations = KnownRevocations(lambda: self._trusted, list_file, self.kept)
        self._checks = CertificateChecks(lambda: self._trusted, self.revocations, self.now)
        self._warn()

    def ssl_context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """Create a context that demands a certificate of the fleet from the other end."""
        context = ssl.create_default_context(purpose, cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.certificate, self.key)
        self._contexts.add(context)
        return context

    def headers(self) -> Mapping[str, str]:
        """Return no headers: the certificate identifies this edge."""
        return {}

    def identify(self, certificate: bytes | None, headers: Mapping[str, str]) -> Identity:
        """See ``Credentials``."""
        if certificate is None:
            raise CertificateError("the other end presents no certificate")
        identity, _ = self._checks.check(certificate)
        _refuse_banned(self.banned, identity)
        return identity

    def sign(self, announcement: Announcement) -> SignedAnnouncement:
        """See ``Credentials``."""
        stamped = msgspec.structs.replace(announcement, incarnation=self.incarnation.number)
        return sign_announcement(stamped, self._pair)

    def verify(self, signed: SignedAnnouncement) -> Announcement:
        """See ``Credentials``."""
        return verify_announcement(signed, *self._checks.check_signer(signed))

    def is_revoked(self, signed: SignedAnnouncement) -> bool:
        """See ``Credentials``."""
        return self._checks.is_revoked(signed.certificate)

    def ban(self, member: Member) -> str | None:
        """See ``Credentials``."""
        return self.banned(member)

    def sign_heartbeat(self, count: int, time: int) -> Heartbeat:
        """See ``Credentials``."""
        number = self.incarnation.number
        return sign_heartbeat(self._identity.edge, self._pair.key, incarnation=number, count=count, time=time)

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: Heartbeat) -> None:
        """See ``Credentials``."""
        identity, key = self._checks.check_signer(signed)
        if not verify_heartbeat(identity.edge, key, heartbeat):
            raise ForgedAnnouncement(f"a heartbeat of {identity.edge} has a wrong signature")

    def refresh(self) -> bool:
        """See ``Credentials``. Open connections keep the certificate that they were made with."""
        is_listed, is_renewed = self.revocations.refresh(), self._load()
        if is_renewed:
            info("certificate_renewed", until=f"{self._identity.not_after:%Y-%m-%d}")
            self.incarnation.rise()  # peers check a heartbeat with the key of the announcement of its incarnation
            for context in self._contexts:
                context.load_cert_chain(self.certificate, self.key)
        self._warn()
        return is_renewed or is_listed

    def days_left(self) -> float:
        """See ``Credentials``."""
        return (self._identity.not_after - self.now()) / dt.timedelta(days=1)

    def _load(self) -> bool:
        modified = max(path.stat().st_mtime_ns for path in (self.certificate, self.key))
        if modified == self._modified:
            return False
        pair = KeyPair.load(self.certificate.read_bytes(), self.key.read_bytes())
        self._identity, self._pair = read_identity(pair.certificate), pair
        self._trusted = load_certificate(self.authority.read_bytes())
        self._modified = modified
        return True

    def _warn(self) -> None:
        """Log that this edge's own certificate expires soon or is revoked."""
        is_revoked = self.revocations.is_revoked(self._identity.serial)
        for event, fields in self._alarm.check(self._identity, self.days_left(), is_revoked=is_revoked):
            warn(event, **fields)


def _refuse_banned(banned: Ban, identity: Identity) -> None:
    rule = banned(Member(identity.edge, identity.region))
    if rule is not None:
        raise CertificateError(f"{identity.edge} is banned: {rule}")


@final
@dataclass(frozen=True)
class InsecureCredentials:
    """No certificates: every edge is who it claims to be. Only between edges on one machine."""

    edge: str
    region: str
    incarnation: Incarnation = field(default_factory=Incarnation)
    banned: Ban = lambda _: None
    revocations: KnownRevocations = field(default_factory=KnownRevocations)
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
        identity = Identity(edge, region, (), *always)
        _refuse_banned(self.banned, identity)
        return identity

    def sign(self, announcement: Announcement) -> SignedAnnouncement:
        """See ``Credentials``."""
        stamped = msgspec.structs.replace(announcement, incarnation=self.incarnation.number)
        return SignedAnnouncement(msgspec.msgpack.encode(stamped), b"", b"")

    def verify(self, signed: SignedAnnouncement) -> Announcement:
        """See ``Credentials``."""
        return decode_announcement(signed)

    def is_revoked(self, signed: SignedAnnouncement) -> bool:
        """See ``Credentials``."""
        return False

    def ban(self, member: Member) -> str | None:
        """See ``Credentials``."""
        return self.banned(member)

    def sign_heartbeat(self, count: int, time: int) -> Heartbeat:
        """See ``Credentials``."""
        return Heartbeat(self.incarnation.number, count, time, b"")

    def verify_heartbeat(self, signed: SignedAnnouncement, heartbeat: Heartbeat) -> None:
        """See ``Credentials``."""

    def refresh(self) -> bool:
        """See ``Credentials``."""
        return False

    def days_left(self) -> None:
        """See ``Credentials``."""


def check_loopback(field: str, address: str) -> None:
    """Refuse an address, host:port or host, that is not on this machine."""
    host = address.rpartition(":")[0] if ":" in address and not address.endswith("]") else address
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise InvalidValue(field, address, "a loopback address with --insecure; elsewhere edges need certificates")
