"""Child processes that end with this one."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # Linux


def end_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child process does first: it asks to be ended when this process ends, for whatever reason.

    It also leaves the process group, so that Ctrl-C reaches only this process, which then stops the edges.
    """

    def prepare() -> None:
        os.setpgrp()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent has ended already
                os._exit(1)

    return prepare
