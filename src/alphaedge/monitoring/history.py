"""The history of a fleet in bounded space: recent frames as they came, older ones in larger and larger steps.

When there are too many frames, or they take too many bytes, pairs are merged, first those whose step is short for its
age. So a step is about the same share of its age everywhere. The first frame is never merged into a later one.
"""

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from alphaedge.files import replace_file
from alphaedge.monitoring.frames import Frame, make_frame, merge_frames
from alphaedge.monitoring.vitals import EdgeView

MAX_BYTES: Final = 4_000_000  # of JSON
MAX_FRAMES: Final = 600
BYTES_PER_EVENT: Final = 500  # so many bytes allow one event; older events are dropped, so that states have room
KEPT_SHARE: Final = 0.75  # of the bytes, once they were exceeded, so that most frames are only appended


class _Stored(NamedTuple):
    frame: Frame
    line: bytes


@final
class History:
    """Frames, oldest first; the first has all edges.

    file: where they are kept, one line of JSON each. It is read when the history is made, up to the first line that
    can't be read. max_bytes: of these lines; a single frame may take more, if the fleet does. max_frames: how many.
    """

    def __init__(self, file: Path | None = None, *, max_bytes: int = MAX_BYTES, max_frames: int = MAX_FRAMES) -> None:
        self._file, self._max_bytes, self._max_frames = file, max_bytes, max_frames
        self._state: dict[str, EdgeView] = {}
        self._frames: list[_Stored] = []
        self._bytes = 0
        self._in_file = True  # the file, if there is one, has these frames and nothing else
        if file is not None:
            self._read(file)

    @property
    def state(self) -> Mapping[str, EdgeView]:
        """All edges ever seen, as they were last seen."""
        return self._state

    def add(self, state: Mapping[str, EdgeView], time: float) -> Frame | None:
        """Add the state of the fleet at a time. Return the frame for it, or None if nothing has changed.

        An edge that ``state`` does not name stays as it was. Each frame is later than the one before it, even if the
        clock goes back. Raises OSError if the file can't be written: the frame is in the history nevertheless, and the
        next ``add`` writes the whole file.
        """
        if self._frames:
            time = max(time, math.nextafter(self._frames[-1].frame.time, math.inf))
        frame = make_frame(self._state, state, time)
        if not frame.edges:
            return None
        self._append(_encode(frame))
        thinned = self._thin()
        if self._file is not None:
            self._write(self._file, append=self._in_file and not thinned)
        return frame

    def since(self, time: float) -> list[Frame]:
        """Return the frames after ``time``. Applied to the state at that time, they lead to the state of now."""
        return [stored.frame for stored in self._frames if stored.frame.time > time]

    def _append(self, stored: _Stored) -> None:
        self._frames.append(stored)
        self._bytes += len(stored.line)
        self._state.update(stored.frame.edges)

    def _thin(self) -> bool:
        """Merge frames until they fit; return whether any had to be changed."""
        if len(self._frames) <= self._max_frames and self._bytes <= self._max_bytes:
            return False
        while len(self._frames) > self._max_frames or self._bytes > self._max_bytes * KEPT_SHARE:
            if len(self._frames) > 1:
                self._frames = _drop_events(_merge_some(self._frames), self._max_bytes // BYTES_PER_EVENT)
            elif self._frames[0].frame.events:
                self._frames = _drop_events(self._frames, 0)
            else:
                break  # the fleet itself takes as much
            self._bytes = sum(len(stored.line) for stored in self._frames)
        return True

    def _read(self, file: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            lines = file.read_bytes().splitlines(keepends=True)
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                for line in lines:
                    frame = msgspec.json.decode(line, type=Frame)
                    if not line.endswith(b"\n") or (self._frames and frame.time <= self._frames[-1].frame.time):
                        break
                    self._append(_Stored(frame, line))
            self._in_file = len(self._frames) == len(lines)
        if self._thin():
            self._in_file = False

    def _write(self, file: Path, *, append: bool) -> None:
        self._in_file = False  # until it has worked
        if append:
            with file.open("ab") as out:
                out.write(self._frames[-1].line)
        else:
            replace_file(file, b"".join(stored.line for stored in self._frames))
        self._in_file = True


def _encode(frame: Frame) -> _Stored:
    return _Stored(frame, msgspec.json.encode(frame) + b"\n")


def _merge_some(frames: list[_Stored]) -> list[_Stored]:
    """Merge up to a quarter of the frames with the next one."""
    times = [stored.frame.time for stored in frames]

    def coarseness(i: int) -> float:
        """The step that is left when frame i is gone, as a share of its age."""
        return (times[i + 1] - times[i - 1]) / (times[-1] - times[i - 1])

    merged: set[int] = set()
    for i in sorted(range(1, len(frames) - 1), key=coarseness) or [0]:
        if i - 1 not in merged and i + 1 not in merged:
            merged.add(i)
        if len(merged) >= len(frames) // 4:
            break
    fewer: list[_Stored] = []
    for i, stored in enumerate(frames):
        fewer.append(_encode(merge_frames(fewer.pop().frame, stored.frame)) if i - 1 in merged else stored)
    return fewer


def _drop_events(frames: list[_Stored], limit: int) -> list[_Stored]:
    """Drop all events but the newest ``limit``."""
    kept: list[_Stored] = []
    for stored in reversed(frames):
        events = stored.frame.events
        left = events[len(events) - limit :] if len(events) > limit else events
        kept.append(stored if left is events else _encode(msgspec.structs.replace(stored.frame, events=left)))
        limit -= len(left)
    return kept[::-1]
