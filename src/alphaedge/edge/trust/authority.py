"""The folder in which the operator of a fleet keeps its authority and the certificates of its edges."""

import datetime as dt
from collections.abc import Sequence
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
from alphaedge.errors import CertificateError, InvalidValue
from alphaedge.files import replacing

AUTHORITY: Final = "ca"


@final
class CertificateFolder:
    """``ca.pem`` and ``ca.key``, and ``EDGE.pem`` and ``EDGE.key`` for each edge; only their owner can read keys."""

    def __init__(self, path: Path) -> None:
        self.path = path

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
        self._write(edge, issue_certificate(self._load_authority(now), edge, region, hosts, now=now, days=days))
        return path

    def renew(self, edge: str, *, now: dt.datetime, days: int) -> Path:
        """Issue a new certificate and key for an edge, for the names in the old one, which may have expired."""
        authority, path = self._load_authority(now), self._certificate(edge)
        if edge == AUTHORITY or not path.exists():
            raise InvalidValue("edge", edge, "one of " + (", ".join(self.edges()) or "none: nothing was issued here"))
        old = load_certificate(path.read_bytes())
        known = check_certificate(old, authority.certificate, now=old.not_valid_after_utc)
        self._write(edge, issue_certificate(authority, known.edge, known.region, known.hosts, now=now, days=days))
        return path

    def edges(self) -> list[str]:
        """List the edges that have a certificate here."""
        return sorted(path.stem for path in self.path.glob("*.pem") if path.stem != AUTHORITY)

    def identities(self, now: dt.datetime) -> dict[str, Identity | CertificateError]:
        """Read each edge's certificate: its identity, or why it must not be used."""
        authority = load_certificate(self._certificate(AUTHORITY).read_bytes())
        results: dict[str, Identity | CertificateError] = {}
        for edge in self.edges():
            try:
                certificate = load_certificate(self._certificate(edge).read_bytes())
                results[edge] = check_certificate(certificate, authority, now)
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
