"""The folder in which the operator of a fleet keeps its authority and the certificates of its edges."""

import contextlib
import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, final

from alphaedge.edge.trust.certificates import (
    Identity,
    KeyPair,
    check_certificate,
    create_authority,
    issue_certificate,
    load_certificate,
)
from alphaedge.edge.trust.issued import IssuedCertificate, IssuedCertificates
from alphaedge.edge.trust.revocations import (
    REVOKED_FILE,
    RevocationList,
    RevokedCertificate,
    SignedRevocations,
    sign_revocations,
    verify_revocations,
)
from alphaedge.errors import CertificateError, InvalidValue
from alphaedge.files import replace_file, replacing

AUTHORITY: Final = "ca"
KEEP_EXPIRED: Final = dt.timedelta(days=30)  # in the list of revoked certificates: an edge's clock may be behind


@final
class CertificateFolder:
    """``ca.pem`` and ``ca.key``, and ``EDGE.pem`` and ``EDGE.key`` for each edge; only their owner can read keys.

    ``issued.list`` is the record of all certificates, ``revoked.list`` the signed list of those that are revoked.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.revoked_file = path, path / REVOKED_FILE
        self._issued = IssuedCertificates(path)

    def init(self, fleet: str, *, now: dt.datetime, days: int) -> Path:
        """Create an authority and return the path of its certificate. Refuses to replace one."""
        if self._certificate(AUTHORITY).exists():
            raise InvalidValue("folder", str(self.path), "a folder without an authority: this one has ca.pem")
        self._write(AUTHORITY, create_authority(fleet, now=now, days=days))
        return self._certificate(AUTHORITY)

    def issue(self, edge: str, region: str, hosts: Sequence[str], *, now: dt.datetime, days: int) -> Path:
        """Issue a certificate for a new edge and return its path. Refuses to replace one (``renew`` does)."""
        path = self._certificate(edge)
        if edge == AUTHORITY:
            raise InvalidValue("edge", edge, "any other name: this one is the authority's")
        if path.exists():
            raise InvalidValue("edge", edge, f"an edge without a certificate: {path} exists (renew it)")
        pair = issue_certificate(self._load_authority(now), edge, region, hosts, now=now, days=days)
        self._issued.add([pair.certificate], now)
        self._write(edge, pair)
        return path

    def renew(self, edges: Iterable[str], *, now: dt.datetime, days: int) -> dict[str, Path]:
        """Issue new certificates and keys for some edges, for the names in the old ones, which may have expired.

        Nothing is written unless all can be renewed. The old certificates stay valid until they expire.
        """
        authority = self._load_authority(now)
        pairs = {edge: self._renewed(edge, authority, now, days) for edge in edges}
        self._issued.add([pair.certificate for pair in pairs.values()], now)
        for edge, pair in pairs.items():
            self._write(edge, pair)
        return {edge: self._certificate(edge) for edge in pairs}

    def _renewed(self, edge: str, authority: KeyPair, now: dt.datetime, days: int) -> KeyPair:
        path = self._certificate(edge)
        if edge == AUTHORITY or not path.exists():
            raise InvalidValue("edge", edge, "one of " + (", ".join(self.edges()) or "none: nothing was issued here"))
        try:
            old = load_certificate(path.read_bytes())
            known = check_certificate(old, authority.certificate, now=old.not_valid_after_utc)
        except CertificateError as error:
            raise CertificateError(f"{path}: {error}") from None
        return issue_certificate(authority, known.edge, known.region, known.hosts, now=now, days=days)

    def revoke(self, edges: Collection[str], serials: Collection[int], *, now: dt.datetime) -> list[IssuedCertificate]:
        """Add certificates to the signed list, and return those that were not on it. Its number grows by 1.

        edges: all their certificates up to now; one that is issued later is valid again. serials: single certificates.
        """
        authority, known = self._load_authority(now), {one.serial: one for one in self.issued(now)}
        unknown = sorted(set(edges) - {one.edge for one in known.values()})
        if unknown:
            allowed = ", ".join(sorted({one.edge for one in known.values()})) or "none: nothing is valid here"
            raise InvalidValue("edge", unknown[0], f"an edge with a valid certificate: {allowed}")
        wanted = {one.serial: one for one in known.values() if one.edge in edges}
        for serial in serials:
            text = f"{serial:x}"
            wanted[text] = known.get(text, IssuedCertificate(text, "", dt.datetime.max.replace(tzinfo=dt.UTC), ""))
        before = self.revocations()
        new = [one for serial, one in wanted.items() if serial not in {old.serial for old in before.revoked}]
        if new:
            oldest = f"{now - KEEP_EXPIRED:%Y-%m-%d}"
            kept = [old for old in before.revoked if old.until >= oldest]
            added = [RevokedCertificate(one.serial, one.edge, f"{one.until:%Y-%m-%d}") for one in new]
            signed = sign_revocations(RevocationList(before.number + 1, (*kept, *added)), authority)
            replace_file(self.revoked_file, signed.to_file(), durable=True)
        return new

    def revocations(self) -> RevocationList:
        """Return the list of revoked certificates; an empty one if there is none."""
        try:
            content = self.revoked_file.read_bytes()
        except FileNotFoundError:
            return RevocationList()
        authority = load_certificate(self._certificate(AUTHORITY).read_bytes())
        return verify_revocations(SignedRevocations.from_file(content), authority)

    def issued(self, now: dt.datetime) -> list[IssuedCertificate]:
        """Return the certificates that have not expired, also those that are not on record."""
        found = {one.serial: one for one in self._issued.read()}
        for edge in self.edges():
            with contextlib.suppress(CertificateError):  # ``identities`` tells what is wrong with it
                one = IssuedCertificate.of(load_certificate(self._certificate(edge).read_bytes()))
                found.setdefault(one.serial, one)
        return [one for one in found.values() if one.until >= now]

    def pinned_keys(self, now: dt.datetime) -> list[str]:
        """Return the keys that may connect to a NATS server, if it must know: once a revoked edge is certified anew.

        A NATS server knows edges by the names in their certificates, and the revoked certificate has the same names.
        """
        revoked = {one.serial for one in self.revocations().revoked}
        issued = self.issued(now)
        valid = [one for one in issued if one.serial not in revoked]
        again = {one.edge for one in valid} & {one.edge for one in issued if one.serial in revoked}
        return [one.key for one in valid] if again else []

    def edges(self) -> list[str]:
        """List the edges that have a certificate here."""
        return sorted(path.stem for path in self.path.glob("*.pem") if path.stem != AUTHORITY)

    def expiries(self) -> list[tuple[str, int, dt.datetime]]:
        """Return each edge, the serial number of its certificate and when that expires, even if it has."""
        found = [(edge, load_certificate(self._certificate(edge).read_bytes())) for edge in self.edges()]
        return [(edge, one.serial_number, one.not_valid_after_utc) for edge, one in found]

    def identities(self, now: dt.datetime) -> dict[str, Identity | CertificateError]:
        """Read each edge's certificate: its identity, or why it must not be used."""
        authority = load_certificate(self._certificate(AUTHORITY).read_bytes())
        results: dict[str, Identity | CertificateError] = {}
        revoked = self.revocations().serials()
        for edge in self.edges():
            try:
                certificate = load_certificate(self._certificate(edge).read_bytes())
                results[edge] = check_certificate(certificate, authority, now)
                if certificate.serial_number in revoked:
                    results[edge] = CertificateError("revoked")
            except CertificateError as error:
                results[edge] = error
        return results

    def _load_authority(self, now: dt.datetime) -> KeyPair:
        path = self._certificate(AUTHORITY)
        if not path.exists():
            raise InvalidValue("folder", str(self.path), "a folder with an authority (alphaedge certs init)")
        pair = KeyPair.load(path.read_bytes(), self._key(AUTHORITY).read_bytes())
        end = pair.certificate.not_valid_after_utc
        if now > end:
            raise CertificateError(f"the authority's certificate expired at {end:%Y-%m-%d}")
        return pair

    def _certificate(self, name: str) -> Path:
        return self.path / f"{name}.pem"

    def _key(self, name: str) -> Path:
        return self.path / f"{name}.key"

    def _write(self, name: str, pair: KeyPair) -> None:
        """Write both files completely or not at all. Others can never read the key, not even for a moment."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (
            replacing(self._certificate(name), durable=True, mode=0o644) as certificate,
            replacing(self._key(name), durable=True, mode=0o600) as key,
        ):
            certificate.write(pair.certificate_pem())
            key.write(pair.key_pem())
