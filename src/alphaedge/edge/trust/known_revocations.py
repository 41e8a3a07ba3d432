"""The newest revocation list that an edge knows, however it got it: from a file, by gossip or from NATS."""

from collections.abc import Callable
from pathlib import Path
from typing import final

from cryptography import x509

from alphaedge.edge.log import info, warn
from alphaedge.edge.trust.revocations import SignedRevocations, read_number, verify_revocations
from alphaedge.errors import ForgedAnnouncement
from alphaedge.files import replace_file


@final
class KnownRevocations:
    """The list in force. A list with a lower number never replaces it.

    authority: returns the authority's certificate; None without certificates, when no list is believed. file: where an
    operator puts a new list. kept: where the edge keeps the newest list that it has heard of, for its next start.
    """

    number: int
    signed: SignedRevocations | None  # the list in force, to pass on

    def __init__(
        self,
        authority: Callable[[], x509.Certificate] | None = None,
        file: Path | None = None,
        kept: Path | None = None,
    ) -> None:
        self._authority, self._file, self._kept = authority, file, kept
        self._reset()
        self.refresh()

    def _reset(self) -> None:
        self.number, self.signed = 0, None
        self._serials: frozenset[int] = frozenset()
        self._modified: dict[Path, int] = {}  # of the files that were read to their end
        self._last_errors: dict[Path, str] = {}
        self._trusted = self._authority() if self._authority is not None else None

    def is_revoked(self, serial: int) -> bool:
        """Whether a certificate is revoked."""
        return serial in self._serials

    def refresh(self) -> bool:
        """Read the files that have changed or could not be read; True if another list is in force now."""
        before = self.signed
        if self._authority is not None and self._authority() != self._trusted:
            self._reset()  # a new authority counts its lists from the beginning
        for path in (self._kept, self._file):
            if path is not None:
                self._read(path)
        return self.signed != before

    def offer(self, signed: SignedRevocations) -> bool:
        """Use a list if it is newer, and keep it; True if so.

        Raises ``ForgedAnnouncement`` unless the authority has signed it.
        """
        if not self._use(signed):
            return False
        if self._kept is not None:
            try:
                replace_file(self._kept, signed.to_file(), durable=True)
            except OSError as error:  # it is in force all the same, and peers have it
                warn("revocations_not_stored", reason=error)
        return True

    def _read(self, path: Path) -> None:
        try:
            modified = path.stat().st_mtime_ns
            if self._modified.get(path) != modified:
                self._use(SignedRevocations.from_file(path.read_bytes()))
                self._modified[path] = modified
            self._last_errors.pop(path, None)
        except FileNotFoundError:
            pass
        except (ForgedAnnouncement, OSError) as error:
            if str(error) != self._last_errors.get(path):
                warn("revocations_refused", file=path.name, reason=error)
            self._last_errors[path] = str(error)

    def _use(self, signed: SignedRevocations) -> bool:
        if read_number(signed) <= self.number:
            return False
        if self._trusted is None:
            raise ForgedAnnouncement("a revocation list, although this edge has no certificates")
        revocations = verify_revocations(signed, self._trusted)
        self.number, self._serials, self.signed = revocations.number, revocations.serials(), signed
        info("revocations_in_force", number=self.number, revoked=len(self._serials))
        return True
