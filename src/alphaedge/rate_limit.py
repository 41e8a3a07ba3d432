"""Rate limits: token buckets, one for each caller. Pure: the time is always an argument."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, final

Key = TypeVar("Key", bound=Hashable)


@final
@dataclass
class TokenBucket:
    """A bucket that fills at ``rate`` tokens a second up to ``burst``, and starts full.

    Times are in seconds of any clock that does not go back.

    >>> bucket = TokenBucket(rate=2.0, burst=3.0)
    >>> [bucket.take(now=0.0) for _ in range(4)]
    [0.0, 0.0, 0.0, 0.5]
    >>> bucket.take(now=0.5)
    0.0
    """

    rate: float
    burst: float
    _tokens: float = field(default=0.0, init=False)
    _filled_at: float | None = field(default=None, init=False)

    def take(self, now: float, tokens: float = 1.0) -> float:
        """Take tokens if there are enough. Returns 0.0, or the seconds until there are enough, and then takes none.

        What costs more than a full bucket takes all of it, or it could never be paid for.
        """
        if self._filled_at is None:
            self._tokens = self.burst
        else:
            self._tokens = min(self.burst, self._tokens + self.rate * max(0.0, now - self._filled_at))
        self._filled_at = now
        missing = min(tokens, self.burst) - self._tokens
        if missing > 0:
            return missing / self.rate
        self._tokens = max(0.0, self._tokens - tokens)
        return 0.0


@final
class RateLimiter(Generic[Key]):
    """A token bucket for each key. max_keys: the most that are remembered; the one unused for longest is forgotten.

    A key that was forgotten starts with a full bucket again. That is no way around the limit: to make a key forgotten,
    ``max_keys`` others have to be used, which have full buckets themselves.

    >>> limiter = RateLimiter[str](rate=1.0, burst=1.0)
    >>> limiter.take("ann", now=0.0), limiter.take("ann", now=0.0), limiter.take("bob", now=0.0)
    (0.0, 1.0, 0.0)
    """

    def __init__(self, rate: float, burst: float, max_keys: int = 10_000) -> None:
        self._rate, self._burst, self._max_keys = rate, burst, max_keys
        self._buckets: OrderedDict[Key, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Key, now: float, tokens: float = 1.0) -> float:
        """Take tokens from the bucket of a key; see ``TokenBucket.take``."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, self._burst)
            if len(self._buckets) > self._max_keys:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.take(now, tokens)
