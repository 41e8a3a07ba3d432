"""A lock on a data folder: one process at a time. It is free again when its holder ends, however it does."""

import fcntl
import os
from pathlib import Path
from typing import final

from alphaedge.errors import AlreadyRunning


@final
class Lock:
    """The lock of a file, held until closed or until this process ends."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise AlreadyRunning(f"{path.parent}: another edge runs with this data folder") from None

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)
