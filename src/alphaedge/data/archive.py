"""Archives of public data: found on disk, or fetched from their publisher and checked.

An archive is looked for in the folder that the environment variable ALPHAEDGE_DATA names, then in the user's cache,
and is else downloaded into the cache, if its publisher lets anybody do that. Members are found by their bare names,
so a zip file that nests its folders differently serves as well.
"""

import hashlib
import http.client
import io
import os
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, final

from alphaedge.errors import ArchiveError

# Bytes so far, and of the whole if the publisher says.
Progress = Callable[[int, int | None], None]

_PIECE: Final = 1 << 16


@final
@dataclass(frozen=True)
class Archive:
    """A published zip file: ``page`` is for people, ``url`` for a download, ``md5`` of the bare members it needs."""

    name: str
    page: str
    url: str | None = None
    md5: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.name}.zip"


def cache_folder() -> Path:
    """Where downloads are kept."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "alphaedge"


def find(archive: Archive) -> Path | None:
    """The archive on this machine, if it is there."""
    given = os.environ.get("ALPHAEDGE_DATA")
    folders = [Path(given)] if given else []
    return next((f / archive.file for f in [*folders, cache_folder()] if (f / archive.file).is_file()), None)


def fetch(archive: Archive, progress: Progress = lambda _, __: None) -> Path:
    """The archive on this machine, downloaded if need be."""
    found = find(archive)
    if found is not None:
        return found
    by_hand = f"get it from {archive.page} and put it as {archive.file} into {cache_folder()}"
    by_hand += " or the folder that ALPHAEDGE_DATA names"
    if archive.url is None:
        raise ArchiveError(f"{archive.file} is not on this machine, and its publisher asks for a log-in: {by_hand}")
    target = cache_folder() / archive.file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            partial = Path(folder) / archive.file
            with partial.open("wb") as file:
                _download(archive.url, file, progress)
            _check(archive, partial)
            os.replace(partial, target)
    except (http.client.HTTPException, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise ArchiveError(f"{archive.file} could not be downloaded from {archive.url} ({error}): {by_hand}") from error
    return target


def read(archive: Archive, member: str, progress: Progress = lambda _, __: None) -> io.BytesIO:
    """One file of an archive, by its bare name."""
    path = fetch(archive, progress)
    try:
        with zipfile.ZipFile(path) as zipped:
            return io.BytesIO(zipped.read(_place(zipped, member)))
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise ArchiveError(f"{path}: no readable zip file with {member} in it ({error})") from error


def _place(zipped: zipfile.ZipFile, member: str) -> str:
    for name in zipped.namelist():
        if PurePosixPath(name).name == member:
            return name
    raise KeyError(member)


def _download(url: str, file: io.BufferedWriter, progress: Progress) -> None:
    with urllib.request.urlopen(url, timeout=60) as response:
        length = response.headers.get("Content-Length")
        total, done = int(length) if length else None, 0
        while piece := response.read(_PIECE):
            file.write(piece)
            done += len(piece)
            progress(done, total)
    if total is not None and done < total:
        raise OSError(f"{done} of {total} bytes came")


def _check(archive: Archive, path: Path) -> None:
    with zipfile.ZipFile(path) as zipped:
        for member, expected in archive.md5.items():
            try:
                found = hashlib.md5(zipped.read(_place(zipped, member)), usedforsecurity=False).hexdigest()
            except KeyError:
                found = "no such file"
            if found != expected:
                raise ArchiveError(
                    f"{archive.file} from {archive.url}: {member} has checksum {found}, expected {expected}"
                )
