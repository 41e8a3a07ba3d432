"""Wall-clock time, and the processor time of a process with all that it has started.

On a busy machine a framework with more processes gets more of the cores. Work per second of processor time does not
depend on that.
"""

import os
import time
from pathlib import Path
from typing import final

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@final
class Stopwatch:
    """Adds up the seconds between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def start(self) -> None:
        """Begin to count."""
        self.seconds -= time.perf_counter()
        self.cpu_seconds -= cpu_seconds(os.getpid())

    def stop(self) -> None:
        """Cease to count."""
        self.seconds += time.perf_counter()
        self.cpu_seconds += cpu_seconds(os.getpid())


def cpu_seconds(root: int) -> float:
    """Return the processor time of a process and its descendants so far, as Linux has it in ``/proc``."""
    spent, children = {}, dict[int, list[int]]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The second field is a name in brackets and may contain blanks.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(folder.name)
        children.setdefault(int(fields[1]), []).append(process)
        spent[process] = sum(map(int, fields[11:15])) * _TICK  # user and system time, of waited-for children too
    total, rest = 0.0, [root]
    while rest:
        process = rest.pop()
        total += spent.get(process, 0.0)
        rest += children.get(process, [])
    return total
