"""Gives processes of a test a wall clock of their own, which the test may set while they run."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .hostile import skip_or_fail

SOURCE = Path(__file__).with_suffix(".c")


class WallClock:
    """The clock of the processes that were started within ``use``. folder: for the library and the offset."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            skip_or_fail("there is no C compiler (Debian: apt-get install gcc libc6-dev)")
        folder.mkdir(parents=True)
        self._library, self._offset = folder / "wall_clock.so", folder / "offset"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, SOURCE, "-ldl"], check=True)
        self._offset.write_bytes(bytes(8))

    def set(self, seconds: int) -> None:
        """Set the clock, relative to the true time."""
        with self._offset.open("r+b") as file:  # in place: the processes have mapped the file
            file.write(seconds.to_bytes(8, "little", signed=True))

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Start processes with this clock."""
        changes = {"LD_PRELOAD": str(self._library), "WALL_CLOCK_OFFSET": str(self._offset)}
        before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
