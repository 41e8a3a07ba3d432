"""The time that a journal is written by: the wall clock's at the start, and from then on its own."""

from collections.abc import Callable


def steady(wall: Callable[[], float], monotonic: Callable[[], float], not_before: float = 0.0) -> Callable[[], float]:
    """A clock in seconds that never jumps, though the wall clock may: it starts at the wall's time and goes on evenly.

    not_before: the latest moment that is written down already; a clock that starts before it was set back.

    >>> clock = steady(lambda: 1000.0, iter([1.0, 1.0, 3.5]).__next__, not_before=2000.0)
    >>> clock(), clock()
    (2000.0, 2002.5)
    """
    start, began = max(wall(), not_before), monotonic()
    return lambda: start + monotonic() - began
