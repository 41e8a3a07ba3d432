"""The incarnation of an edge: a number on disk that grows with every start, so that no version depends on a clock.

Others compare what an edge says by its incarnation first. An edge that has lost its disk begins with a low number,
hears from its peers what it said with a higher one, and goes above that.
"""

from pathlib import Path
from typing import Annotated, Final, final

import msgspec

from alphaedge.edge.log import warn
from alphaedge.files import replace_file

# A start every second for 136 years. Whatever is higher is refused, so that there is always room in 64 bits.
MAX_INCARNATION: Final = 2**32 - 1
MAX_COUNT: Final = 2**53 - 1  # announcements or heartbeats of one incarnation

IncarnationNumber = Annotated[int, msgspec.Meta(ge=0, le=MAX_INCARNATION)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]


@final
class Incarnation:
    """The incarnation of this run. path: its file; without one, every run is the first."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.number = min(_read(path) + 1, MAX_INCARNATION)
        self._store()

    def rise(self, above: int = 0) -> None:
        """Begin a new incarnation, above the last one and above ``above``."""
        self.number = min(max(self.number, above) + 1, MAX_INCARNATION)
        self._store()

    def _store(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, b"%d\n" % self.number, durable=True)
        except OSError as error:  # a full disk, say: at worst the next run repeats a number, and hears of it
            warn("incarnation_not_stored", number=self.number, reason=error)


def _read(path: Path | None) -> int:
    """Return the last incarnation; 0 if there is none, or none that can be believed."""
    try:
        text = path.read_bytes() if path is not None else b""
    except OSError:
        return 0
    digits = text.strip()
    return int(digits) if digits.isdigit() and len(digits) <= 10 and int(digits) <= MAX_INCARNATION else 0
