"""The folder in which whoever runs a fleet keeps its authority and the certificates of its edges."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import final

from alphaedge.edge.trust.certificates import Identity, Pair, check, create_authority, issue, load_certificate
from alphaedge.errors import CertificateError, InvalidValue
from alphaedge.files import replacing

AUTHORITY = "ca"


@final
class Folder:
    """``ca.pem`` and ``ca.key``, and ``EDGE.pem`` and ``EDGE.key`` for each edge; only their owner can read keys."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def init(self, fleet: str, *, now: dt.datetime, days: int) -> Path:
        """Make a new authority; refuses to replace one."""
        if self._certificate(AUTHORITY).exists():
            raise InvalidValue("folder", str(self.path), "a folder without an authority: this one has ca.pem")
        self._write(AUTHORITY, create_authority(fleet, now=now, days=days))
        return self._certificate(AUTHORITY)

    def issue(self, edge: str, region: str, hosts: Sequence[str], *, now: dt.datetime, days: int) -> Path:
        """A certificate for a new edge; refuses to replace one (``renew`` does)."""
        if edge == AUTHORITY:
            raise InvalidValue("edge", edge, "another name: this is the authority's")
        if self._certificate(edge).exists():
            raise InvalidValue(
                "edge", edge, f"an edge without a certificate: {self._certificate(edge)} is there (renew it)"
            )
        self._write(edge, issue(self._authority(now), edge, region, hosts, now=now, days=days))
        return self._certificate(edge)

    def renew(self, edge: str, *, now: dt.datetime, days: int) -> Path:
        """A new certificate and key for an edge, with the names that it had, whether or not the old one has ended."""
        authority = self._authority(now)
        if edge == AUTHORITY or not self._certificate(edge).exists():
            raise InvalidValue("edge", edge, "one of " + (", ".join(self.edges()) or "none: nothing was issued here"))
        old = load_certificate(self._certificate(edge).read_bytes())
        known = check(old, authority.certificate, now=old.not_valid_after_utc)
        self._write(edge, issue(authority, known.edge, known.region, known.hosts, now=now, days=days))
        return self._certificate(edge)

    def edges(self) -> list[str]:
        """The edges that have a certificate here."""
        return sorted(p.stem for p in self.path.glob("*.pem") if p.stem != AUTHORITY)

    def show(self, now: dt.datetime) -> dict[str, Identity | CertificateError]:
        """What each edge's certificate says, or why it must not be used."""
        authority = load_certificate(self._certificate(AUTHORITY).read_bytes())
        found: dict[str, Identity | CertificateError] = {}
        for edge in self.edges():
            try:
                found[edge] = check(load_certificate(self._certificate(edge).read_bytes()), authority, now)
            except CertificateError as error:
                found[edge] = error
        return found

    def _authority(self, now: dt.datetime) -> Pair:
        if not self._certificate(AUTHORITY).exists():
            raise InvalidValue("folder", str(self.path), "a folder with an authority (alphaedge certs init)")
        pair = Pair.load(self._certificate(AUTHORITY).read_bytes(), self._key(AUTHORITY).read_bytes())
        if now > pair.certificate.not_valid_after_utc:
            raise CertificateError(
                f"the authority's certificate ended at {pair.certificate.not_valid_after_utc:%Y-%m-%d}"
            )
        return pair

    def _certificate(self, name: str) -> Path:
        return self.path / f"{name}.pem"

    def _key(self, name: str) -> Path:
        return self.path / f"{name}.key"

    def _write(self, name: str, pair: Pair) -> None:
        """Both files whole or not at all; never a moment in which others can read the key."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (
            replacing(self._certificate(name), durable=True, mode=0o644) as certificate,
            replacing(self._key(name), durable=True, mode=0o600) as key,
        ):
            certificate.write(pair.certificate_pem())
            key.write(pair.key_pem())
