"""How many files and connections this process may have open at once."""

import resource
from typing import Final

MANY: Final = 1 << 20  # where there is no limit
RESERVED: Final = 100  # for files, and for connections to other edges


def raise_descriptor_limit() -> int:
    """Raise the limit to the highest that the system allows this process; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS allows less than its hard limit says
            return soft
    return hard if hard != resource.RLIM_INFINITY else MANY


def connections_within(wanted: int, descriptors: int) -> int:
    """How many connections to allow so that files can still be opened. wanted: as configured.

    >>> connections_within(256, descriptors=1024), connections_within(256, descriptors=200)
    (256, 100)
    """
    return max(1, min(wanted, descriptors - RESERVED, descriptors // 2))
