"""The secrets under which keys travel between edges: a file that an operator can change while edges run.

Stored keys are hashes under the fleet's first secret, which never changes. On the way to a peer they are encrypted
under a wire secret (``peers/wire_keys.py``). Without a file, that is the first secret. A rotation has two steps, each
a copy of the file to one edge after the other: at first it has the old secret and the new one, then the new one alone.
Two edges use the newest secret that both have, so in between every pair has one.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from alphaedge.edge.log import info, warn
from alphaedge.errors import InvalidValue
from alphaedge.files import replace_file

MIN_SECRET_BYTES, MAX_SECRET_BYTES = 16, 64
MAX_SECRETS: Final = 2  # the old one and the new one
WIRE_SECRETS_FILE: Final = "wire.secrets"  # beside the configuration, which need not name it
NAME_BYTES: Final = 8


@final
@dataclass(frozen=True)
class WireSecret:
    """A secret under which keys travel. first: the one under which they are stored.

    Its name tells edges whether they share both; it reveals neither.
    """

    value: bytes = field(repr=False)
    first: bytes = field(repr=False)

    @property
    def name(self) -> bytes:
        """Its name on the wire."""
        return hashlib.blake2b(b"name\0" + self.first, digest_size=NAME_BYTES, key=self.value).digest()


def check_secret(name: str, secret: bytes) -> bytes:
    """Return a secret if it is long enough; the error does not show it."""
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise InvalidValue(name, f"{len(secret)} bytes", f"a secret of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes")
    return secret


def read_first_secret(folder: Path, name: str | None) -> bytes:
    """Read the fleet's first secret; nothing if the configuration names no file."""
    return (folder / name).read_bytes().strip() if name is not None else b""


def read_wire_secrets(path: Path) -> list[bytes]:
    """Read a file of wire secrets, one a line, the oldest first; empty lines and those that start with # are left out.

    An error does not show what it has found.
    """
    lines = [line.strip() for line in path.read_bytes().splitlines()]
    found = [check_secret(path.name, line) for line in lines if line and not line.startswith(b"#")]
    if not 1 <= len(set(found)) == len(found) <= MAX_SECRETS:
        allowed = f"1 to {MAX_SECRETS} different ones, the newest last"
        raise InvalidValue(path.name, f"{len(found)} secrets, {len(set(found))} of them different", allowed)
    return found


def begin_rotation(path: Path, first: bytes) -> WireSecret:
    """Add a new secret to the file, which need not exist. first: the fleet's first secret."""
    before = read_wire_secrets(path) if path.exists() else [check_secret("secret", first)]
    if len(before) == MAX_SECRETS:
        allowed = "one: a rotation is under way, finish it first (--finish)"
        raise InvalidValue(path.name, f"{len(before)} secrets", allowed)
    return _write(path, [*before, secrets.token_hex(32).encode()], first)


def finish_rotation(path: Path, first: bytes) -> WireSecret:
    """Leave only the newest secret in the file."""
    before = read_wire_secrets(path) if path.exists() else []
    if len(before) < MAX_SECRETS:
        raise InvalidValue(path.name, f"{len(before)} secrets", "two: no rotation is under way (--rotate begins one)")
    return _write(path, before[-1:], first)


def _write(path: Path, values: Sequence[bytes], first: bytes) -> WireSecret:
    replace_file(path, b"".join(value + b"\n" for value in values), durable=True, mode=0o600)
    return WireSecret(values[-1], first)


@final
class WireSecrets:
    """The wire secrets in force. The file must be valid at the start; later, one that is not changes nothing.

    first: the fleet's first secret. path: of the file; None for none. optional: whether there may be no file, which
    means the first secret. A file that vanishes later changes nothing either.
    """

    def __init__(self, first: bytes, path: Path | None = None, *, optional: bool = True) -> None:
        self._first, self._path, self._version, self._last_error = first, path, (0, 0), ""
        self._secrets: tuple[WireSecret, ...] = (WireSecret(first, first),)
        if path is not None and (path.exists() or not optional):
            self._read(path)

    @property
    def newest_first(self) -> tuple[WireSecret, ...]:
        """All secrets, the newest first."""
        return self._secrets

    def _read(self, path: Path) -> None:
        stat = path.stat()
        version = (stat.st_mtime_ns, stat.st_size)
        if version != self._version:
            self._secrets = tuple(WireSecret(value, self._first) for value in reversed(read_wire_secrets(path)))
            self._version = version

    def refresh(self) -> bool:
        """Read the file if it has changed; True if other secrets are in force now."""
        if self._path is None or (self._version == (0, 0) and not self._path.exists()):
            return False
        before = self._secrets
        try:
            self._read(self._path)
            self._last_error = ""
        except (InvalidValue, OSError) as error:
            if str(error) != self._last_error:
                warn("wire_secrets_refused", reason=error)
            self._last_error = str(error)
        if self._secrets == before:
            return False
        info("wire_secrets_changed", secrets=len(self._secrets), newest=self._secrets[0].name.hex())
        return True
