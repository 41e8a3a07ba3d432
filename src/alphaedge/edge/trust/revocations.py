"""Revoked certificates: a list that the fleet's authority signs. Its number only grows.

The list has no date after which it is refused: an edge that can't get a newer one goes on with what it has. (OpenSSL's
own check of revocation lists refuses everybody once a list is late.)

A file has two lines: the list in JSON, and its signature in base64.
"""

import base64
import binascii
from typing import Annotated, Final, TypeVar, final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from alphaedge.edge.trust.announcements import SIGNATURE_ALGORITHM
from alphaedge.edge.trust.certificates import KeyPair
from alphaedge.edge.trust.incarnation import MAX_COUNT
from alphaedge.errors import ForgedAnnouncement, InvalidValue

T = TypeVar("T")
REVOKED_FILE: Final = "revoked.list"  # in the folder of the authority's certificate
MAX_LIST_BYTES: Final = 500_000
PURPOSE: Final = b"alphaedge revocation list\n"  # signed with the list, so that nothing else can pass for one
SERIAL_PATTERN: Final = r"^[0-9a-f]{1,40}\Z"


@final
class RevokedCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One certificate.

    serial: its number, in hexadecimal. edge: whose it is, as far as known. until: the day on which it expires.
    """

    serial: Annotated[str, msgspec.Meta(pattern=SERIAL_PATTERN)]
    edge: str = ""
    until: str = ""


@final
class RevocationList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list. number: of two lists, the higher one counts. revoked: all that have not expired long ago."""

    number: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)] = 0
    revoked: tuple[RevokedCertificate, ...] = ()

    def serials(self) -> frozenset[int]:
        """Return the serial numbers."""
        return frozenset(int(one.serial, 16) for one in self.revoked)


@final
class SignedRevocations(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A list as it travels.

    payload: the list in JSON. signature: of the fleet's authority, ECDSA with SHA-256, over a fixed line and the
    payload.
    """

    payload: bytes
    signature: bytes

    def to_file(self) -> bytes:
        """Encode the list as a file."""
        return self.payload + b"\n" + base64.b64encode(self.signature) + b"\n"

    @classmethod
    def from_file(cls, content: bytes) -> "SignedRevocations":
        """Decode a file; raises ``ForgedAnnouncement`` if it is none."""
        lines = content.splitlines()
        try:
            return cls(lines[0], base64.b64decode(lines[1], validate=True))
        except (IndexError, binascii.Error) as error:
            raise ForgedAnnouncement(f"a revocation list can't be decoded ({error})") from None


def sign_revocations(revocations: RevocationList, authority: KeyPair) -> SignedRevocations:
    """Sign a list with the authority's key; a list that every edge would refuse for its size is not signed."""
    payload = msgspec.json.encode(revocations)
    if len(payload) > MAX_LIST_BYTES:
        allowed = f"a list of at most {MAX_LIST_BYTES:,} bytes; a new authority starts an empty one"
        raise InvalidValue("revoked", f"{len(revocations.revoked):,} certificates, {len(payload):,} bytes", allowed)
    return SignedRevocations(payload, authority.key.sign(PURPOSE + payload, SIGNATURE_ALGORITHM))


class _ListHead(msgspec.Struct):
    number: int = 0


def read_number(signed: SignedRevocations) -> int:
    """Read the number of a list. Nothing is verified."""
    return _decode(signed, _ListHead).number


def _decode(signed: SignedRevocations, kind: type[T]) -> T:
    if len(signed.payload) > MAX_LIST_BYTES:
        size = len(signed.payload)
        raise ForgedAnnouncement(f"a revocation list has {size} bytes; allowed: at most {MAX_LIST_BYTES}")
    try:
        return msgspec.json.decode(signed.payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ForgedAnnouncement(f"a revocation list can't be decoded ({error})") from None


def verify_revocations(signed: SignedRevocations, authority: x509.Certificate) -> RevocationList:
    """Decode a list that the authority has signed; raise ``ForgedAnnouncement`` for any other."""
    key = authority.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ForgedAnnouncement("the authority's key is not an elliptic curve key, so it can't sign a list")
    try:
        key.verify(signed.signature, PURPOSE + signed.payload, SIGNATURE_ALGORITHM)
    except InvalidSignature:
        raise ForgedAnnouncement("a revocation list is not signed by this fleet's authority") from None
    return _decode(signed, RevocationList)
