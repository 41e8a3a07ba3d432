"""The least throughput of a connection: whoever drips bytes is cut off early, long before a deadline. Pure."""

from typing import Final, NamedTuple, final

LEAST_BYTES_PER_SECOND: Final = 10_000.0
GRACE_SECONDS: Final = 5.0


@final
class Pace(NamedTuple):
    """How fast data must flow from the time ``began`` on: at the least rate, after a grace period.

    >>> pace = Pace(began=100.0)
    >>> pace.due(0), pace.due(50_000)
    (105.0, 110.0)
    """

    began: float
    grace: float = GRACE_SECONDS
    rate: float = LEAST_BYTES_PER_SECOND

    def due(self, bytes_so_far: int) -> float:
        """When more than ``bytes_so_far`` must have passed."""
        return self.began + self.grace + bytes_so_far / self.rate
