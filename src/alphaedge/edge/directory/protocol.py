"""What a directory is: one edge's view of which other edges exist, and of what they announce."""

from collections.abc import Mapping
from typing import Protocol

from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement


class Directory(Protocol):
    """One edge's view of its fleet."""

    async def start(self) -> None:
        """Start to exchange announcements with the other edges. Announce something first."""
        ...

    async def announce(self, signed: SignedAnnouncement) -> None:
        """Replace this edge's announcement. The directory repeats it as often as it must."""
        ...

    def alive(self) -> Mapping[str, Announcement]:
        """Return the announcements of the edges that are alive, by edge; this edge's too, once it has announced."""
        ...

    def refusals(self) -> Mapping[str, int]:
        """Count the announcements that were refused, by reason."""
        ...

    def skews(self) -> Mapping[str, float]:
        """Return how many seconds the clocks of the edges that are alive are ahead of this one's, as far as known."""
        ...

    async def close(self) -> None:
        """Leave. Peers notice at once if the last announcement said that this edge is gone, else after a while."""
        ...
