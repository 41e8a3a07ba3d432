"""What both directories tell of the fleet, once they have heard of it."""

from collections.abc import Callable, Mapping

from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.trust.announcements import Announcement


class MembershipView:
    """The part of a ``Directory`` that only reads. clock: seconds, of which only differences matter; it never jumps."""

    def __init__(self, membership: Membership, clock: Callable[[], float]) -> None:
        self._membership, self._clock = membership, clock

    def alive(self) -> Mapping[str, Announcement]:
        """See ``Directory``."""
        return self._membership.alive(self._clock())

    def refusals(self) -> Mapping[str, int]:
        """See ``Directory``."""
        return self._membership.refusals

    def skews(self) -> Mapping[str, float]:
        """See ``Directory``."""
        return self._membership.skews(self._clock())
