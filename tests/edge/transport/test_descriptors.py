"""A process may open as many files as the system allows, and some stay free for files."""

import subprocess
import sys

from alphaedge.edge.transport.descriptors import connections_within

PROGRAM = """
import resource
from alphaedge.edge.transport.descriptors import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))
assert raise_descriptor_limit() == 400
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (400, 400)
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_connections_leave_descriptors_for_files() -> None:
    assert connections_within(256, 1024) == 256
    assert connections_within(2000, 512) == 256
    assert connections_within(256, 150) == 50
    assert connections_within(256, 20) == 1
