"""Announcements: what each edge says about itself, signed, so that any edge can pass it on and none can change it."""

import re
from collections.abc import Iterable
from typing import Final, TypeVar, final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from alphaedge.edge.trust.certificates import Identity, KeyPair
from alphaedge.edge.trust.incarnation import Count, IncarnationNumber
from alphaedge.errors import AnnouncementError, ForgedAnnouncement
from alphaedge.monitoring.vitals import MAX_LINKS, Vitals, is_plausible

T = TypeVar("T")
SIGNATURE_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
MAX_ANNOUNCEMENT_BYTES: Final = 100_000
STAMP_BYTES: Final = 16  # by which an incarnation and a version may yet grow
SHARE_TOLERANCE: Final = 1e-6  # shares are rounded, so their sum may exceed 1 by a little
ADDRESS_PATTERN: Final = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}):[0-9]{1,5}")


@final
class Announcement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an edge says about itself.

    edge, region: as in its certificate. address: host:port at which peers reach it. schema: edges mix only with edges
    of the same schema. incarnation: grows with every start of the edge. version: grows with every announcement of an
    incarnation. publication: number of its last publication. shares: its neighbours with their shares in its last mix.
    vitals: numbers for people to look at. gone: it has left for good.
    """

    edge: str
    region: str
    address: str
    schema: str
    incarnation: IncarnationNumber = 0
    version: Count
    publication: int = 0
    shares: dict[str, float] = {}
    vitals: Vitals = Vitals()
    gone: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Incarnation and version: of two announcements of an edge, the newer one has the larger."""
        return self.incarnation, self.version


@final
class AnnouncementHead(msgspec.Struct, frozen=True):
    """What tells whether an announcement is news, so that old ones need not be decoded and verified."""

    edge: str
    incarnation: IncarnationNumber
    version: Count

    @property
    def order(self) -> tuple[int, int]:
        """See ``Announcement``."""
        return self.incarnation, self.version


@final
class SignedAnnouncement(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An announcement as it travels.

    payload: the announcement in MessagePack. signature: the edge's signature of the payload, ECDSA with SHA-256.
    certificate: the edge's certificate in DER.
    """

    payload: bytes
    signature: bytes
    certificate: bytes


def fit_limits(announcement: Announcement) -> Announcement:
    """The announcement, without its least links if they are too many or take too many bytes.

    An edge with a thousand neighbours mixes them all; it only tells of fewer.
    """
    fitted, most = _with_links(announcement, MAX_LINKS), MAX_LINKS
    while most and len(msgspec.msgpack.encode(fitted)) > MAX_ANNOUNCEMENT_BYTES - STAMP_BYTES:
        most //= 2
        fitted = _with_links(announcement, most)
    return fitted


def _with_links(announcement: Announcement, most: int) -> Announcement:
    """The announcement with at most so many shares, neighbours and links: those with the largest shares."""
    shares, vitals = announcement.shares, announcement.vitals

    def largest(names: Iterable[str]) -> list[str]:
        chosen = sorted(names, key=lambda name: (-shares.get(name, 0.0), name not in vitals.neighbours, name))
        return sorted(chosen[:most])

    told = msgspec.structs.replace(
        vitals,
        neighbours=tuple(largest(vitals.neighbours)),
        links={name: vitals.links[name] for name in largest(vitals.links)},
    )
    return msgspec.structs.replace(announcement, shares={name: shares[name] for name in largest(shares)}, vitals=told)


def sign_announcement(announcement: Announcement, pair: KeyPair) -> SignedAnnouncement:
    """Sign an announcement with the edge's own key."""
    payload = msgspec.msgpack.encode(announcement)
    certificate = pair.certificate.public_bytes(serialization.Encoding.DER)
    return SignedAnnouncement(payload, pair.key.sign(payload, SIGNATURE_ALGORITHM), certificate)


def verify_announcement(signed: SignedAnnouncement, identity: Identity, key: ec.EllipticCurvePublicKey) -> Announcement:
    """Decode an announcement that the edge it describes has signed; raise ``AnnouncementError`` for any other.

    identity, key: of the announcement's certificate, which was checked before.
    """
    try:
        key.verify(signed.signature, signed.payload, SIGNATURE_ALGORITHM)
    except InvalidSignature:
        raise ForgedAnnouncement(f"an announcement of {identity.edge} has a wrong signature") from None
    announcement = decode_announcement(signed)
    if (announcement.edge, announcement.region) != (identity.edge, identity.region):
        claim = f"{announcement.edge} in {announcement.region}"
        raise ForgedAnnouncement(f"{identity.edge} in {identity.region} claims to be {claim}")
    return announcement


def decode_announcement(signed: SignedAnnouncement) -> Announcement:
    """Decode an announcement and check its values, but not its signature."""
    announcement = _decode(signed, Announcement)
    reason = _find_fault(announcement)
    if reason is not None:
        raise AnnouncementError(f"an announcement of {announcement.edge[:64]} {reason}")
    return announcement


def read_head(signed: SignedAnnouncement) -> AnnouncementHead:
    """Read what an announcement says of its edge and version. Nothing is verified."""
    return _decode(signed, AnnouncementHead)


def _decode(signed: SignedAnnouncement, kind: type[T]) -> T:
    if (size := len(signed.payload)) > MAX_ANNOUNCEMENT_BYTES:
        raise AnnouncementError(f"an announcement has {size} bytes; allowed: at most {MAX_ANNOUNCEMENT_BYTES}")
    try:
        return msgspec.msgpack.decode(signed.payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # any depth, in a field unknown here
        raise AnnouncementError(f"an announcement can't be decoded ({error})") from None


def _find_fault(announcement: Announcement) -> str | None:
    """Describe the first value that is not allowed."""
    shares = announcement.shares
    if not ADDRESS_PATTERN.fullmatch(announcement.address):
        return f"has the address {announcement.address[:64]!r}; allowed: host:port"
    if announcement.publication < 0:
        return f"has the publication {announcement.publication}; allowed: 0 or more"
    if not all(0 <= share <= 1 for share in shares.values()) or sum(shares.values()) > 1 + SHARE_TOLERANCE:
        return "has impossible shares; allowed: each from 0 to 1, with a sum of at most 1"
    if not is_plausible(announcement.vitals):
        return "has vitals with too many links or with invalid numbers, names or states"
    return None
