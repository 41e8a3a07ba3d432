"""The clock of the journal: it starts at the time of the wall clock and never jumps."""

from collections.abc import Callable


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
