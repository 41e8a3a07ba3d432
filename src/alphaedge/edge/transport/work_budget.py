"""How much of this edge's time a member's requests may take. Pure: the time is an argument."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, final

SHARE: Final = 0.05  # of one core
BURST_SECONDS: Final = 3.0  # of work at once, after a pause
MAX_MEMBERS: Final = 10_000


@final
@dataclass
class WorkBudget:
    """Whether a member has used up its share. What a request costs is known only after it was answered.

    >>> budget = WorkBudget()
    >>> budget.spend("paris", 4.0, now=100.0)
    >>> budget.wait("paris", now=100.0), budget.wait("paris", now=130.0), budget.wait("boston", now=100.0)
    (20.0, 0.0, 0.0)
    """

    share: float = SHARE
    burst: float = BURST_SECONDS
    _paid_at: OrderedDict[str, float] = field(default_factory=OrderedDict)  # when all work so far is within the share

    def wait(self, member: str, now: float) -> float:
        """Seconds until a member may ask again; 0 if it may now."""
        return max(0.0, self._paid_at.get(member, now) - now - self.burst / self.share)

    def spend(self, member: str, seconds: float, now: float) -> None:
        """Note the work that a request of a member took."""
        self._paid_at[member] = max(now, self._paid_at.pop(member, now)) + seconds / self.share
        while len(self._paid_at) > MAX_MEMBERS:
            self._paid_at.popitem(last=False)
