"""Child processes that end with their parent."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # an option of prctl on Linux


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent ends, for whatever reason. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)


def child_of(parent: int) -> Callable[[], None]:
    """Return what a child process does first: it leaves its parent's process group, and is to end with the parent.

    So Ctrl-C reaches only the parent, which then stops its children.
    """

    def prepare() -> None:
        os.setpgrp()
        end_with_parent(parent, signal.SIGTERM)

    return prepare
