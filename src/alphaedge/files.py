"""Files that are complete or not there: written beside their place, then renamed into it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes the place of ``path`` when the block ends.

    If the block raises, ``path`` stays as it was. One writer at a time: the unfinished file is ``NAME.part``.

    durable: whether the file and its name are on disk when the block has ended. mode: permissions of the new file, less
    the umask; they hold from the first byte on.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # left behind by a process that was killed
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def replace_file(path: Path, content: bytes, *, durable: bool = False, mode: int = 0o666) -> None:
    """Write ``content`` to ``path``; a reader sees the old file or the new one. Options as in ``replacing``."""
    with replacing(path, durable=durable, mode=mode) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk: syncing a file does not cover its name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
