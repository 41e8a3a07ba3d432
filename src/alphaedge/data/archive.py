"""Archives of public data: found on this machine, or downloaded from their publisher and checked.

An archive is looked for in the folder that the environment variable ALPHAEDGE_DATA names, then in the user's cache. If
it is in neither, it is downloaded into the cache, unless its publisher asks for a log-in. Members are found by their
bare names, so that a zip file with other folders serves as well.
"""

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, final

from alphaedge.errors import ArchiveError

# Called with the bytes downloaded so far, and the size of the whole if the publisher states it.
Progress = Callable[[int, int | None], None]

DOWNLOAD_TIMEOUT_SECONDS: Final = 60  # to connect, and between two pieces
_CHUNK_BYTES: Final = 1 << 16


@final
@dataclass(frozen=True)
class Archive:
    """A published zip file.

    page: where people find it. url: where to download it; None if the publisher asks for a log-in. md5: checksums of
    the members that are needed, by their bare names.
    """

    name: str
    page: str
    url: str | None = None
    md5: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file name."""
        return f"{self.name}.zip"


def cache_folder() -> Path:
    """Return the folder of downloaded archives."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "alphaedge"


def find(archive: Archive) -> Path | None:
    """Return the path of the archive on this machine; None if it is not there."""
    given = os.environ.get("ALPHAEDGE_DATA")
    folders = [Path(given)] if given else []
    return next((f / archive.file for f in [*folders, cache_folder()] if (f / archive.file).is_file()), None)


def fetch(archive: Archive, progress: Progress = lambda _, __: None) -> Path:
    """Return the path of the archive on this machine, after downloading it if necessary."""
    path = find(archive)
    if path is not None:
        return path
    by_hand = (
        f"get it from {archive.page} and save it as {archive.file} in {cache_folder()} "
        "or in the folder that ALPHAEDGE_DATA names"
    )
    if archive.url is None:
        raise ArchiveError(f"{archive.file} is not on this machine, and its publisher asks for a log-in: {by_hand}")
    try:
        return _download(archive, archive.url, progress)
    except (OSError, zipfile.BadZipFile, zlib.error) as error:  # requests' errors are OSErrors
        raise ArchiveError(f"{archive.file} could not be downloaded from {archive.url} ({error}): {by_hand}") from error


def read(archive: Archive, member: str, progress: Progress = lambda _, __: None) -> io.BytesIO:
    """Read one file of an archive, given by its bare name."""
    path = fetch(archive, progress)
    try:
        with zipfile.ZipFile(path) as zipped:
            return io.BytesIO(zipped.read(_full_name(zipped, member)))
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise ArchiveError(f"{path}: no readable zip file with {member} in it ({error})") from error


def _download(archive: Archive, url: str, progress: Progress) -> Path:
    import pooch  # type: ignore[import-untyped]  # here, since most runs download nothing

    def download(url: str, output_file: str, pooch_instance: Any) -> None:
        bar = _ProgressBar(progress)
        get = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK_BYTES, timeout=DOWNLOAD_TIMEOUT_SECONDS)
        get(url, output_file, pooch_instance)
        _check_members(archive, Path(output_file))

    # pooch downloads to a temporary file and renames it when `download` returns. There is no hash of the whole file:
    # publishers pack the same members anew. pooch would print advice to add one.
    pooch.get_logger().setLevel("WARNING")
    return Path(pooch.retrieve(url, known_hash=None, fname=archive.file, path=cache_folder(), downloader=download))


@final
class _ProgressBar:
    """The object that pooch expects of a progress bar; it passes on the bytes so far."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.total = 0  # set by pooch; 0 if unknown
        self.done = 0

    def update(self, count: int) -> None:
        """Add bytes. The last piece counts as a whole one, so the sum is capped."""
        self.done = min(self.done + count, self.total) if self.total else self.done + count
        self.progress(self.done, self.total or None)

    def reset(self) -> None:
        """Do nothing: pooch resets the bar before it fills it, and bytes do not go back."""

    def close(self) -> None:
        """Do nothing."""


def _check_members(archive: Archive, path: Path) -> None:
    with zipfile.ZipFile(path) as zipped:
        for member, expected in archive.md5.items():
            try:
                actual = hashlib.md5(zipped.read(_full_name(zipped, member)), usedforsecurity=False).hexdigest()
            except KeyError:
                actual = "no such file"
            if actual != expected:
                raise ArchiveError(
                    f"{archive.file} from {archive.url}: {member} has checksum {actual}, expected {expected}"
                )


def _full_name(zipped: zipfile.ZipFile, member: str) -> str:
    for name in zipped.namelist():
        if PurePosixPath(name).name == member:
            return name
    raise KeyError(member)
