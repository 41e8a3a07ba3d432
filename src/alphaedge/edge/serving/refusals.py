"""Refused requests: counted by endpoint and reason, and logged, at most once in a while for each reason."""

from collections import Counter
from collections.abc import Callable
from typing import Final, final

from starlette.exceptions import HTTPException

from alphaedge.edge.log import warn
from alphaedge.edge.serving.limits import Reason
from alphaedge.rate_limit import RateLimiter

LOG_INTERVAL_SECONDS: Final = 10.0  # between two events with the same reason


class LimitReached(HTTPException):
    """A request that a limit refuses."""

    def __init__(self, status: int, text: str, reason: Reason, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, text, headers)
        self.reason: Reason = reason


@final
class Refusals:
    """count: adds one to the metrics, by endpoint and reason. clock: seconds that never go back. log: logs an event."""

    def __init__(
        self,
        count: Callable[[str, Reason], None],
        clock: Callable[[], float],
        log: Callable[..., None] = warn,
    ) -> None:
        self._count, self._clock, self._log = count, clock, log
        self._log_rate = RateLimiter[Reason](1 / LOG_INTERVAL_SECONDS, 1.0)
        self._unlogged: Counter[Reason] = Counter()

    def note(self, endpoint: str, reason: Reason, caller: str) -> None:
        """Count a refusal. caller: the last one, for the log."""
        self._count(endpoint, reason)
        self._unlogged[reason] += 1
        if not self._log_rate.take(reason, self._clock()):
            count = self._unlogged.pop(reason)
            self._log("requests_refused", reason=reason, endpoint=endpoint, caller=caller, count=count)
