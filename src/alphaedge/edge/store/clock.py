"""The clock of the journal: it starts at the time of the wall clock and never jumps."""

import time
from collections.abc import Callable

from alphaedge.edge.store.journal import Journal


def steady_clock(
    wall: Callable[[], float], monotonic: Callable[[], float], not_before: float = 0.0
) -> Callable[[], float]:
    """Make a clock in seconds that starts at the wall clock's time and advances evenly, even if that one is set.

    not_before: the latest time in the journal; if the wall clock shows an earlier time, it was set back.

    >>> clock = steady_clock(lambda: 1000.0, iter([1.0, 1.0, 3.5]).__next__, not_before=2000.0)
    >>> clock(), clock()
    (2000.0, 2002.5)
    """
    start, began = max(wall(), not_before), monotonic()
    return lambda: start + monotonic() - began


def journal_clock(journal: Journal) -> Callable[[], float]:
    """Make the clock of a journal, which goes on from its latest time."""
    return steady_clock(time.time, time.monotonic, journal.latest_time())
