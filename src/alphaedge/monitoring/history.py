"""The past of a fleet in little space: recent times as they were told, old times in larger and larger steps.

When the frames get too many or too large, pairs of them are merged: those first whose step is short for how long ago it
was. So a step is about the same share of its age everywhere, and the first frame stays where it was.
"""

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from alphaedge.files import replace_file
from alphaedge.monitoring.frames import Frame, merge, step
from alphaedge.monitoring.vitals import EdgeView

BUDGET: Final = 4_000_000  # bytes of JSON
MOST_FRAMES: Final = 600
PER_EVENT: Final = 500  # bytes of the budget; older events are forgotten, they must not crowd out how the fleet was
RELIEF: Final = 0.75  # of the budget is left over once it was exceeded, so that most frames are only appended


class _Kept(NamedTuple):
    frame: Frame
    line: bytes


@final
class History:
    """Frames, oldest first; the first has all edges.

    file: where they are kept, a line of JSON each; read now, as far as it can be read. budget: bytes of these lines. A
    single frame may be larger, if the fleet is. most: how many frames.
    """

    def __init__(self, file: Path | None = None, *, budget: int = BUDGET, most: int = MOST_FRAMES) -> None:
        self._file, self._budget, self._most = file, budget, most
        self._state: dict[str, EdgeView] = {}
        self._kept: list[_Kept] = []
        self._bytes = 0
        self._stored = True  # the file, if there is one, has these frames and nothing else
        if file is not None:
            self._read(file)

    @property
    def state(self) -> Mapping[str, EdgeView]:
        """All edges ever seen, as they were last seen."""
        return self._state

    def add(self, state: Mapping[str, EdgeView], time: float) -> Frame | None:
        """Take down how the fleet is; the frame for it, None if nothing has changed.

        An edge that ``state`` does not name stays as it was. Each frame is later than the one before it, even if the
        clock goes back. OSError if it can't be written to the file: it is in the history nevertheless, and everything
        is written again with the next frame.
        """
        if self._kept:
            time = max(time, math.nextafter(self._kept[-1].frame.time, math.inf))
        frame = step(self._state, state, time)
        if not frame.edges:
            return None
        self._take(_kept(frame))
        thinned = self._thin()
        if self._file is not None:
            self._store(self._file, append=self._stored and not thinned)
        return frame

    def since(self, time: float) -> list[Frame]:
        """Frames that end later. Who has applied those until ``time`` and applies these has the state of now."""
        return [kept.frame for kept in self._kept if kept.frame.time > time]

    def _take(self, kept: _Kept) -> None:
        self._kept.append(kept)
        self._bytes += len(kept.line)
        self._state.update(kept.frame.edges)

    def _thin(self) -> bool:
        """Make the frames fit; whether they had to be changed."""
        if len(self._kept) <= self._most and self._bytes <= self._budget:
            return False
        while len(self._kept) > self._most or self._bytes > self._budget * RELIEF:
            if len(self._kept) > 1:
                self._kept = _forgetting(_thinned(self._kept), self._budget // PER_EVENT)
            elif self._kept[0].frame.events:
                self._kept = _forgetting(self._kept, 0)
            else:
                break  # the fleet itself takes as much
            self._bytes = sum(len(kept.line) for kept in self._kept)
        return True

    def _read(self, file: Path) -> None:
        """What can be read of a file; a line that can't be, and what comes after it, is as good as never written."""
        with contextlib.suppress(FileNotFoundError):
            lines = file.read_bytes().splitlines(keepends=True)
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                for line in lines:
                    frame = msgspec.json.decode(line, type=Frame)
                    if not line.endswith(b"\n") or (self._kept and frame.time <= self._kept[-1].frame.time):
                        break
                    self._take(_Kept(frame, line))
            self._stored = len(self._kept) == len(lines)
        if self._thin():
            self._stored = False

    def _store(self, file: Path, *, append: bool) -> None:
        self._stored = False  # until it has worked
        if append:
            with file.open("ab") as out:
                out.write(self._kept[-1].line)
        else:
            replace_file(file, b"".join(kept.line for kept in self._kept))
        self._stored = True


def _kept(frame: Frame) -> _Kept:
    return _Kept(frame, msgspec.json.encode(frame) + b"\n")


def _thinned(kept: list[_Kept]) -> list[_Kept]:
    """Up to a quarter fewer, by merging frames with the next one."""
    times = [one.frame.time for one in kept]

    def coarseness(i: int) -> float:
        """The step that is left where frame i was, as a share of how long ago it began."""
        return (times[i + 1] - times[i - 1]) / (times[-1] - times[i - 1])

    merged: set[int] = set()
    for i in sorted(range(1, len(kept) - 1), key=coarseness) or [0]:
        if i - 1 not in merged and i + 1 not in merged:
            merged.add(i)
        if len(merged) >= len(kept) // 4:
            break
    found: list[_Kept] = []
    for i, one in enumerate(kept):
        found.append(_kept(merge(found.pop().frame, one.frame)) if i - 1 in merged else one)
    return found


def _forgetting(kept: list[_Kept], events: int) -> list[_Kept]:
    """With so many events at most, the newest."""
    found: list[_Kept] = []
    for one in reversed(kept):
        told = one.frame.events
        left = told[len(told) - events :] if len(told) > events else told
        found.append(one if left is told else _kept(msgspec.structs.replace(one.frame, events=left)))
        events -= len(left)
    return found[::-1]
