"""How often members have run into which limit. Pure: the time is an argument."""

from dataclasses import dataclass, field
from typing import Final, Literal, final

Limit = Literal[
    "connections", "rate", "size", "memory", "entries", "cpu", "encoding", "head", "slow_request", "slow_reader"
]
"""Which limit was hit.

connections: too many at once or too many new ones. rate: too many requests. size: a request that is too large for its
endpoint. memory: too many bytes of requests at once. entries: a request with too many keys. cpu:
requests that took too much of this edge's time. encoding: a compressed request. head: too many or too long headers.
slow_request, slow_reader: data that does not flow.
"""

UNIDENTIFIED: Final = "unidentified"  # whoever has not shown a certificate yet
OTHERS: Final = "others"  # members beyond the first MAX_MEMBERS
MAX_MEMBERS: Final = 256
LOG_EVERY_SECONDS: Final = 60.0


@final
@dataclass
class LimitHits:
    """Counts by member and limit.

    >>> hits = LimitHits()
    >>> [hits.note("paris", "rate", now) for now in (0.0, 1.0, 60.0)]
    [True, False, True]
    >>> hits.counts
    {'paris': {'rate': 3}}
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    _logged: dict[tuple[str, Limit], float] = field(default_factory=dict)

    def note(self, member: str, limit: Limit, now: float) -> bool:
        """Count a hit. Returns whether to log it: each member's first one at a limit, then one a minute."""
        if member not in self.counts and len(self.counts) >= MAX_MEMBERS:
            member = OTHERS
        counts = self.counts.setdefault(member, {})
        counts[limit] = counts.get(limit, 0) + 1
        logged = self._logged.get((member, limit))
        if logged is not None and now - logged < LOG_EVERY_SECONDS:
            return False
        self._logged[member, limit] = now
        return True
