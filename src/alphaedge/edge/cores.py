"""Who runs on which core, where an edge has a machine to itself.

The learner runs in the class for idle times: whoever else wants its core gets it. On few cores that leaves two waits:
Linux lets a thread of the server queue behind another one rather than wake it on the learner's core, and a learner that
had to wait may still get a turn, until the next tick, before a thread that has just slept for the disk. Neither can
happen when the learner has a core of its own (measured in decision 9). On a machine with many edges or other work it is
better to share: a learner that may not move gets nothing where somebody else never rests.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, NamedTuple, final

from alphaedge.errors import InvalidValue

CoreSharing = Literal["shared", "apart"]


@final
class Cores(NamedTuple):
    """Cores by their numbers."""

    server: frozenset[int]
    learner: frozenset[int]

    def __str__(self) -> str:
        server, learner = (", ".join(map(str, sorted(some))) for some in self)
        return f"the server on {server}, the learner on {learner}"


def apart(available: Iterable[int]) -> Cores:
    """The last core for the learner, the others for the server."""
    *server, learner = sorted(available)
    if not server:
        raise InvalidValue("serve.cores", "apart", "shared, where there is one core alone")
    return Cores(frozenset(server), frozenset([learner]))


def divided(wish: CoreSharing) -> Cores | None:
    """The cores that this process may use, divided as wished; None: both may run on any."""
    if wish == "shared":
        return None
    if not hasattr(os, "sched_getaffinity"):
        raise InvalidValue("serve.cores", wish, "shared: this system can't keep a process on some cores")
    return apart(os.sched_getaffinity(0))


def stay(cores: Collection[int]) -> None:
    """Run on these alone from now on, with all threads, and with all processes that are started later."""
    for thread in Path("/proc/self/task").iterdir():  # libraries have started some already
        os.sched_setaffinity(int(thread.name), cores)
