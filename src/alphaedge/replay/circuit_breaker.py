"""A circuit breaker: while an edge does not answer, one caller at a time tries again, ever more rarely; others wait."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

from alphaedge.backoff import Backoff
from alphaedge.errors import EdgeError

T = TypeVar("T")
FIRST_WAIT_SECONDS: Final = 0.1
MAX_WAIT_SECONDS: Final = 2.0


@final
class CircuitBreaker:
    """Guards all calls to one edge. clock: seconds, of which only differences matter.

    down_since: when the edge stopped answering; None while it answers. retries: attempts that failed and were repeated.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.down_since: float | None = None
        self.retries = 0
        self._clock = clock
        self._backoff = Backoff(FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)
        self._trying: object | None = None  # the call whose turn it is
        self._last_error: EdgeError | None = None
        self._changed = asyncio.Event()

    async def call(self, request: Callable[[], Awaitable[T]], until: float) -> T:
        """Return the answer to a request. Repeat it ``until`` that time while the edge does not answer."""
        me = object()
        while True:
            if not await self._wait_for_turn(me, until):
                assert self._last_error is not None
                raise self._last_error
            try:
                answer = await request()
            except EdgeError as error:
                if not error.temporary:
                    self._record_answer()
                    raise
                self._record_failure(me, error)
                if self._clock() >= until:
                    raise
                self.retries += 1
                continue
            finally:
                if self._trying is me:
                    self._trying = None
                    self._wake_waiters()
            self._record_answer()
            return answer

    async def _wait_for_turn(self, me: object, until: float) -> bool:
        """Wait until the edge answers, or it is this caller's turn to try; return False if ``until`` passes first."""
        while self.down_since is not None:
            now = self._clock()
            if self._trying is None and self._backoff.ready(now):
                self._trying = me
                return True
            if now >= until:
                return False
            # While somebody tries, wait for the outcome; otherwise for the time of the next attempt.
            wake = min(until, self._backoff.retry_at) if self._trying is None else until
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wake - now):
                    await self._changed.wait()
        return True

    def _record_failure(self, me: object, error: EdgeError) -> None:
        now = self._clock()
        if self.down_since is None:
            self.down_since = now
            self._backoff.failed(now)
        elif self._trying is me:  # requests that were under way when the edge went down don't prolong the wait
            self._backoff.failed(now)
        self._last_error = error

    def _record_answer(self) -> None:
        if self.down_since is not None:
            self.down_since = None
            self._backoff.succeeded()
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
