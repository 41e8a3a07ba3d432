"""A process whose CPU, memory and event loop are measured while it is sent something.

CPU is that of the process. How long its event loop is held is the time between two turns of it, less the time that the
process waited for a core, so that a busy machine does not count.
"""

import asyncio
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, final

Work = Callable[[], object]
"""Sends a request, and waits for its answer."""

REFUSED_CPU_MS: Final = 10.0
ACCEPTED_CPU_MS: Final = 100.0
MEMORY_RATIO: Final = 2.0
HOLD_MS: Final = 50.0


@final
class Row(NamedTuple):
    """One measured limit: it holds if the value is at most the limit."""

    name: str
    unit: str
    value: float
    limit: float


@final
class Accepted(NamedTuple):
    """A large request that is accepted. limit: of its CPU for each megabyte, beside ``ACCEPTED_CPU_MS``."""

    work: Work
    megabytes: float
    limit: float


@final
class Probe:
    """Answers questions about its own process, which runs an event loop."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._watching: asyncio.Task[None] | None = None
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")

    def answer(self, command: str) -> float:
        """Do what a ``MeasuredProcess`` asks for."""
        match command:
            case "cpu":
                return time.process_time()
            case "watch":
                self._longest, self._watching = 0.0, asyncio.create_task(self._watch())
            case "held":
                assert self._watching is not None
                self._watching.cancel()
                return self._longest
            case "reset":
                ctypes.CDLL(None).malloc_trim(0)  # or memory that was used before would be used again
                Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
                return _memory("VmRSS")
            case "peak":
                return _memory("VmHWM")
            case "descriptors":
                return len(os.listdir("/proc/self/fd"))
        return 0.0

    async def _watch(self) -> None:
        before = self._now()
        while True:
            await asyncio.sleep(0)
            now = self._now()
            self._longest, before = max(self._longest, now - before), now

    def _now(self) -> float:
        """Seconds, without those that this thread waited for a core."""
        waited = int(self._schedule.read_text().split()[1])
        return time.monotonic() - waited / 1e9


def _memory(name: str) -> int:
    """The memory of this process in bytes, by its name in /proc/self/status."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))


@final
class MeasuredProcess:
    """The other end of a ``Probe``. ask: sends a command and returns the answer. repeat: how often work is measured."""

    def __init__(self, ask: Callable[[str], float], repeat: int) -> None:
        self.ask, self.repeat = ask, repeat

    def cpu_ms(self, work: Work, repeat: int | None = None) -> float:
        """CPU for one call of ``work``: the least mean of five, since what else runs here only adds to it."""
        work()
        count, found = max(1, (repeat or self.repeat) // 5), []
        for _ in range(5):
            before = self.ask("cpu")
            for _ in range(count):
                work()
            found.append(1e3 * (self.ask("cpu") - before) / count)
        return min(found)

    def refused(self, works: Mapping[str, Work]) -> Iterator[Row]:
        """What requests cost that are refused."""
        for name, work in works.items():
            yield Row(f"refused: {name}", "ms of CPU", self.cpu_ms(work), REFUSED_CPU_MS)

    def accepted(self, works: Mapping[str, Accepted]) -> Iterator[Row]:
        """What large requests cost that are accepted."""
        for name, (work, megabytes, limit) in works.items():
            cost = self.cpu_ms(work, max(1, self.repeat // 5))
            yield Row(f"accepted: {name}", "ms of CPU", cost, ACCEPTED_CPU_MS + limit * megabytes)
            per_megabyte = max(0.0, cost - ACCEPTED_CPU_MS) / megabytes
            yield Row(f"accepted: {name}: above {ACCEPTED_CPU_MS:g} ms", "ms of CPU per MB", per_megabyte, limit)

    def memory(self, works: Mapping[str, Work], cap: int) -> Iterator[Row]:
        """The peak of memory over what there was before, in requests of the largest size."""
        for name, work in works.items():
            before = self.ask("reset")
            work()
            yield Row(f"memory: {name}", "times the cap", (self.ask("peak") - before) / cap, MEMORY_RATIO)

    def held(self, works: Mapping[str, Work]) -> Iterator[Row]:
        """The longest hold of the event loop; the shortest of three, since a stall of the machine is no hold."""
        for name, work in works.items():
            found = []
            for _ in range(3):
                self.ask("watch")
                work()
                found.append(self.ask("held"))
            yield Row(f"event loop: {name}", "ms held", 1e3 * min(found), HOLD_MS)
