"""Which processor cores the server and the learner run on.

The learner runs in the scheduling class for idle times: any other process that wants its core gets it. On few cores two
waits remain: Linux queues a thread of the server behind another one rather than wake it on the learner's core, and a
learner that had to wait may still get a turn, until the next tick, before a thread that has just slept for the disk.
Neither can happen when the learner has a core of its own (measured in decision 9). On a machine with many edges or
other work it is better to share: a pinned learner gets no time on a core that another process keeps busy.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, NamedTuple, final

from alphaedge.errors import InvalidValue

CoreSharing = Literal["shared", "separate"]


@final
class CoreAssignment(NamedTuple):
    """The cores of each process, by number."""

    server: frozenset[int]
    learner: frozenset[int]

    def __str__(self) -> str:
        server, learner = (", ".join(map(str, sorted(cores))) for cores in self)
        return f"the server on {server}, the learner on {learner}"


def separate_cores(available: Iterable[int]) -> CoreAssignment:
    """Give the learner the last core and the server the others."""
    *server, learner = sorted(available)
    if not server:
        raise InvalidValue("serve.cores", "separate", "shared: this machine has a single core")
    return CoreAssignment(frozenset(server), frozenset([learner]))


def assign_cores(sharing: CoreSharing) -> CoreAssignment | None:
    """Divide the cores that this process may use; None if both processes share all of them."""
    if sharing == "shared":
        return None
    if not hasattr(os, "sched_getaffinity"):
        raise InvalidValue("serve.cores", sharing, "shared: this system can't pin a process to cores")
    return separate_cores(os.sched_getaffinity(0))


def pin_process(cores: Collection[int]) -> None:
    """Keep all threads of this process, and all processes that it starts later, on these cores."""
    for thread in Path("/proc/self/task").iterdir():  # libraries have started some already
        os.sched_setaffinity(int(thread.name), cores)
