"""The record of all certificates that an authority has issued: one line of JSON for each.

The folder of an authority holds only the newest certificate of an edge. Who wants to revoke an edge must know the older
ones as well, which are valid until they expire.
"""

import datetime as dt
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from alphaedge.edge.trust.certificates import read_identity
from alphaedge.errors import CertificateError
from alphaedge.files import replace_file

ISSUED_FILE: Final = "issued.list"


@final
class IssuedCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One certificate. serial: in hexadecimal. until: the moment it expires. key: SHA-256 of its public key."""

    serial: str
    edge: str
    until: dt.datetime
    key: str

    @classmethod
    def of(cls, certificate: x509.Certificate) -> "IssuedCertificate":
        """Describe a certificate."""
        identity = read_identity(certificate)
        public = certificate.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        key = hashlib.sha256(public).hexdigest()
        return cls(f"{identity.serial:x}", identity.edge, identity.not_after, key)


@final
class IssuedCertificates:
    """The record in the folder of an authority."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ISSUED_FILE

    def read(self) -> list[IssuedCertificate]:
        """Return all certificates on record."""
        try:
            lines = self._path.read_bytes().splitlines()
            return [msgspec.json.decode(line, type=IssuedCertificate) for line in lines]
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            raise CertificateError(f"{self._path} can't be read ({error})") from None

    def add(self, certificates: Iterable[x509.Certificate], now: dt.datetime) -> None:
        """Add certificates, before anybody gets them; drop those that have expired."""
        valid = [one for one in self.read() if one.until >= now]
        lines = [msgspec.json.encode(one) for one in (*valid, *map(IssuedCertificate.of, certificates))]
        replace_file(self._path, b"".join(line + b"\n" for line in lines), durable=True)
