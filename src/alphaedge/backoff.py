"""Exponential back-off: wait after a failure, longer after each further one."""

from dataclasses import dataclass, field
from typing import final


@final
@dataclass
class Backoff:
    """When to try again, in seconds of any clock that does not go back; the time is always an argument.

    first: the wait after the first failure. longest: the longest wait. factor: how many times longer each wait is than
    the one before it. failures: since the last success. retry_at: the time of the next attempt, 0 after a success.

    >>> backoff = Backoff(first=1.0, longest=5.0)
    >>> [backoff.failed(now=0.0) for _ in range(4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> backoff.ready(now=4.9), backoff.ready(now=5.0)
    (False, True)
    >>> backoff.succeeded()
    >>> backoff.ready(now=0.0), backoff.failed(now=0.0)
    (True, 1.0)
    """

    first: float
    longest: float
    factor: float = 2.0
    failures: int = field(default=0, init=False)
    retry_at: float = field(default=0.0, init=False)
    _wait: float = field(default=0.0, init=False)

    def failed(self, now: float) -> float:
        """Note a failure. Returns how long to wait before the next attempt."""
        self._wait = min(self.longest, self._wait * self.factor if self.failures else self.first)
        self.failures += 1
        self.retry_at = now + self._wait
        return self._wait

    def succeeded(self) -> None:
        """Note a success: the next failure is a first one again."""
        self.failures, self.retry_at = 0, 0.0

    def ready(self, now: float) -> bool:
        """Whether it is time for the next attempt."""
        return now >= self.retry_at
