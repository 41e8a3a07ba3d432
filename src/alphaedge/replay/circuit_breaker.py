"""Whether an edge answers. While it does not, one caller at a time tries again, ever more rarely; the others wait."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

from alphaedge.backoff import Backoff
from alphaedge.errors import EdgeError

T = TypeVar("T")
FIRST_WAIT: Final = 0.1  # seconds before an edge that did not answer is asked again
LONGEST_WAIT: Final = 2.0


@final
class CircuitBreaker:
    """What all who ask one edge go through. clock: in seconds, only for differences.

    down_since: when the edge stopped to answer; None while it answers. retries: attempts that failed and were repeated.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.down_since: float | None = None
        self.retries = 0
        self._clock = clock
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT)
        self._trying: object | None = None  # the call whose turn it is
        self._last: EdgeError | None = None
        self._changed = asyncio.Event()

    async def call(self, ask: Callable[[], Awaitable[T]], until: float) -> T:
        """What ``ask`` gives. While the edge does not answer, it is asked again ``until`` then; a refusal is final."""
        me = object()
        while True:
            if not await self._turn(me, until):
                assert self._last is not None
                raise self._last
            try:
                found = await ask()
            except EdgeError as error:
                if not error.temporary:
                    self._answered()  # it did, though not as one would like
                    raise
                self._silent(me, error)
                if self._clock() >= until:
                    raise
                self.retries += 1
                continue
            finally:
                if self._trying is me:
                    self._trying = None
                    self._tell()
            self._answered()
            return found

    async def _turn(self, me: object, until: float) -> bool:
        """Wait until the edge answers, or it is this caller's turn to try; False if it is too late for that."""
        while self.down_since is not None:
            now = self._clock()
            if self._trying is None and self._backoff.ready(now):
                self._trying = me
                return True
            if now >= until:
                return False
            # Whoever tries at the moment says how it went; else it is a matter of time.
            wake = min(until, self._backoff.retry_at) if self._trying is None else until
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wake - now):
                    await self._changed.wait()
        return True

    def _silent(self, me: object, error: EdgeError) -> None:
        now = self._clock()
        if self.down_since is None:
            self.down_since = now
            self._backoff.failed(now)
        elif self._trying is me:  # those that were under way when it went down don't make the wait longer
            self._backoff.failed(now)
        self._last = error

    def _answered(self) -> None:
        if self.down_since is not None:
            self.down_since = None
            self._backoff.succeeded()
            self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
