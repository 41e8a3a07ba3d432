"""A child process ends with its parent, however that one ends."""

import os
import signal
import subprocess
import sys

import pytest

PARENT = """
import os, subprocess, sys
from alphaedge.child_process import child_of
subprocess.Popen([sys.executable, "-c", sys.argv[1]], preexec_fn=child_of(os.getpid())).wait()
"""
# It holds the pipe open: the other end reads to its end only once the child has ended, too.
WAITS = "import os, signal; print(os.getpid(), os.getppid(), os.getpgid(0), flush=True); signal.pause()"
KILLED = "import os, signal; from alphaedge.child_process import end_with_parent; "
KILLED += "end_with_parent(os.getppid(), signal.SIGKILL); signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITS


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells a child")
@pytest.mark.parametrize("child", [WAITS, KILLED], ids=["told by its parent", "told by itself"])
def test_a_child_ends_with_a_parent_that_is_killed(child: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    own, above, group = map(int, parent.stdout.readline().split())
    assert (above, group) == (parent.pid, own), "Ctrl-C does not reach it"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert parent.stdout.read() == ""
