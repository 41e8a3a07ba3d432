"""What a directory is: one edge's view of which other edges exist, and of what they announce."""

from collections.abc import Mapping
from typing import Protocol

from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement


class Directory(Protocol):
    """One edge's view of its fleet."""

    async def start(self) -> None:
        """Begin to listen to the others."""
        ...

    async def speak(self, record: SignedAnnouncement) -> None:
        """Tell the others how things stand here; the last record counts. It is repeated as often as it needs to be."""
        ...

    def alive(self) -> Mapping[str, Announcement]:
        """What the edges that are there say of themselves, this one included once it has spoken."""
        ...

    def refused(self) -> Mapping[str, int]:
        """How often records were not believed, by the reason."""
        ...

    async def close(self) -> None:
        """Stop listening. The others notice by and by, at once if the last record said that this edge is gone."""
        ...
