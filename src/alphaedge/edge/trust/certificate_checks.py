"""Checks the certificates of other edges, wherever one is read: issuer, strength, time and revocation."""

import datetime as dt
from collections.abc import Callable
from typing import Final, final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec

from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.certificates import Identity, check_certificate, check_time, read_identity
from alphaedge.edge.trust.known_revocations import KnownRevocations
from alphaedge.errors import AnnouncementError, CertificateError, ForgedAnnouncement

MAX_REMEMBERED: Final = 10_000  # certificates: every request has one, and checking who signed it takes long


@final
class CertificateChecks:
    """Checks certificates. Whether the authority has issued one is checked once; time and revocation every time.

    authority: returns the certificate of the fleet's authority.
    """

    def __init__(
        self,
        authority: Callable[[], x509.Certificate],
        revocations: KnownRevocations,
        now: Callable[[], dt.datetime],
    ) -> None:
        self._authority, self._revocations, self._now = authority, revocations, now
        self._trusted = authority()
        self._issued: dict[bytes, tuple[Identity, ec.EllipticCurvePublicKey | None]] = {}

    def check(self, certificate: bytes) -> tuple[Identity, ec.EllipticCurvePublicKey | None]:
        """Return the identity and the key of a certificate (DER), or raise ``CertificateError``."""
        now, authority = self._now(), self._authority()
        if authority != self._trusted:
            self._trusted, self._issued = authority, {}
        _check_time("authority's", authority.not_valid_before_utc, authority.not_valid_after_utc, now)
        known = self._issued.get(certificate) or self._check_issuer(certificate, now)
        identity = known[0]
        _check_time("edge's", identity.not_before, identity.not_after, now)
        if self._revocations.is_revoked(identity.serial):
            raise _Outdated(f"the certificate {identity.serial:x} of {identity.edge} is revoked")
        return known

    def _check_issuer(self, der: bytes, now: dt.datetime) -> tuple[Identity, ec.EllipticCurvePublicKey | None]:
        try:
            certificate = x509.load_der_x509_certificate(der)
            identity, key = read_identity(certificate), certificate.public_key()
            _check_time("edge's", identity.not_before, identity.not_after, now)
            check_certificate(certificate, self._trusted, now)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise CertificateError(f"the certificate can't be read ({error})") from None
        if len(self._issued) >= MAX_REMEMBERED:
            self._issued.clear()
        known = self._issued[der] = identity, key if isinstance(key, ec.EllipticCurvePublicKey) else None
        return known

    def check_signer(self, signed: SignedAnnouncement) -> tuple[Identity, ec.EllipticCurvePublicKey]:
        """Return the identity and the key of an announcement's certificate, or raise ``AnnouncementError``."""
        try:
            identity, key = self.check(signed.certificate)
        except _Outdated as error:  # an honest edge whose clock or list differs may pass such a thing on
            raise AnnouncementError(f"the certificate of an announcement is refused: {error}") from None
        except CertificateError as error:
            raise ForgedAnnouncement(f"the certificate of an announcement is refused: {error}") from None
        if key is None:
            raise ForgedAnnouncement(f"the key of {identity.edge} is not an elliptic curve key, so it can't sign")
        return identity, key

    def is_revoked(self, certificate: bytes) -> bool:
        """Whether a certificate (DER), which was checked before, is revoked."""
        known = self._issued.get(certificate)
        serial = known[0].serial if known else x509.load_der_x509_certificate(certificate).serial_number
        return self._revocations.is_revoked(serial)


@final
class _Outdated(CertificateError):
    """A certificate of the fleet that is not valid now, or no longer."""


def _check_time(owner: str, not_before: dt.datetime, not_after: dt.datetime, now: dt.datetime) -> None:
    try:
        check_time(owner, not_before, not_after, now)
    except CertificateError as error:
        raise _Outdated(str(error)) from None
