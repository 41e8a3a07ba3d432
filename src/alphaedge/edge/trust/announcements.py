"""Records: what each edge says of itself, signed, so that anybody may pass it on and nobody can change it."""

import datetime as dt
import re
from typing import Final, final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from alphaedge.edge.trust.certificates import Pair, check
from alphaedge.errors import AnnouncementError, CertificateError
from alphaedge.monitoring.vitals import Vitals, is_plausible

SIGNED: Final = ec.ECDSA(hashes.SHA256())
MOST_BYTES: Final = 100_000  # of a record
ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}):[0-9]{1,5}")


@final
class Announcement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an edge says of itself.

    address: where others reach it. schema: what it must have in common with whoever mixes with it. shares: its
    neighbours with their normalised weights. version: grows with each record of the edge, also over restarts.
    vitals: how it is doing, for people to look at. gone: it has left for good.
    """

    edge: str
    region: str
    address: str
    schema: str
    version: int
    publication: int = 0
    shares: dict[str, float] = {}
    vitals: Vitals = Vitals()
    gone: bool = False


@final
class SignedAnnouncement(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an edge says of itself, with its signature and its certificate."""

    about: bytes
    signature: bytes
    certificate: bytes


def sign(about: Announcement, pair: Pair) -> SignedAnnouncement:
    """A record under the edge's own certificate."""
    body = msgspec.msgpack.encode(about)
    certificate = pair.certificate.public_bytes(serialization.Encoding.DER)
    return SignedAnnouncement(body, pair.key.sign(body, SIGNED), certificate)


def verify(record: SignedAnnouncement, authority: x509.Certificate, now: dt.datetime) -> Announcement:
    """What the record says, if the edge that it speaks of has signed it."""
    try:
        certificate = x509.load_der_x509_certificate(record.certificate)
        known = check(certificate, authority, now)
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise AnnouncementError("a record is signed with a key that is not on an elliptic curve")
        key.verify(record.signature, record.about, SIGNED)
    except (CertificateError, ValueError, UnsupportedAlgorithm) as error:
        raise AnnouncementError(f"a record's certificate is refused: {error}") from None
    except InvalidSignature:
        raise AnnouncementError(f"a record of {known.edge} is not signed by it") from None
    about = read(record)
    if (about.edge, about.region) != (known.edge, known.region):
        claim = f"{about.edge} in {about.region}"
        raise AnnouncementError(f"{known.edge} in {known.region} claims to be {claim}")
    return about


def sign_beat(edge: str, beat: int, pair: Pair) -> bytes:
    """The signature of an edge under a sign of life."""
    return pair.key.sign(_beat(edge, beat), SIGNED)


def verify_beat(record: SignedAnnouncement, beat: int, signature: bytes) -> bool:
    """Whether the edge of a record, which was verified before, has signed a sign of life."""
    key = x509.load_der_x509_certificate(record.certificate).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    try:
        key.verify(signature, _beat(read(record).edge, beat), SIGNED)
    except InvalidSignature:
        return False
    return True


def _beat(edge: str, beat: int) -> bytes:
    return f"{edge} is alive at {beat}".encode()


def read(record: SignedAnnouncement) -> Announcement:
    """What the record says, whoever has written it."""
    try:
        about = msgspec.msgpack.decode(record.about, type=Announcement)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AnnouncementError(f"a record can't be read ({error})") from None
    if len(record.about) > MOST_BYTES or not ADDRESS.fullmatch(about.address):
        raise AnnouncementError(f"a record of {about.edge[:64]} has no address that can be, or is too long")
    wrong = [j for j, share in about.shares.items() if not 0 <= share <= 1]
    if wrong or sum(about.shares.values()) > 1 + 1e-6 or about.version < 0 or about.publication < 0:
        raise AnnouncementError(f"a record of {about.edge[:64]} has numbers that can't be")
    if not is_plausible(about.vitals):
        raise AnnouncementError(f"a record of {about.edge[:64]} tells of links that can't be")
    return about
