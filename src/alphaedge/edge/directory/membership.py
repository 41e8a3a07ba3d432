"""What one edge knows of its fleet: who is a member, who is alive. Pure: no I/O, and the time is an argument.

No clock orders anything. An announcement counts if its incarnation and version are higher than those known, a heartbeat
if its number in that incarnation is. So a clock that jumps changes nothing, and what is replayed counts once at most.
An edge whose heartbeat has not moved for a while, by the clock of the edge that listens, counts as down.

An edge that hears an announcement of its own that is newer than its last one has lost its disk, or there are two of it.
It begins an incarnation above that one. Incarnations are bounded (``MAX_INCARNATION``); an edge that has used up even
the last one goes on by version, and is forgotten with its numbers when its certificate is revoked.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from alphaedge.edge.log import warn
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement, decode_announcement, read_head
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.incarnation import MAX_COUNT
from alphaedge.edge.trust.policy import Member
from alphaedge.errors import AnnouncementError

MAX_EDGES: Final = 5_000  # with more, choosing contacts would hold the event loop for too long
MAX_REASONS: Final = 100  # that are counted separately
MAX_REASON_CHARACTERS: Final = 200
OTHER_REASONS: Final = "other reasons"
SKEW_SAMPLES: Final = 5  # heartbeats from which the skew of a clock is measured


def count_refusal(refusals: dict[str, int], reason: str) -> None:
    """Count a refusal by its reason. Reasons stay few and short, whatever peers send."""
    reason = reason[:MAX_REASON_CHARACTERS]
    if reason not in refusals and len(refusals) >= MAX_REASONS:
        reason = OTHER_REASONS
    refusals[reason] = refusals.get(reason, 0) + 1


@final
@dataclass
class Entry:
    """What is known of one edge.

    heartbeat: the last one of the announcement's incarnation. heard: our time when it last moved. left: the edge has
    said that it leaves, without a signature, and has not been heard since. offsets: its clock less ours, in seconds, at
    the last heartbeats.
    """

    signed: SignedAnnouncement
    announcement: Announcement
    heard: float
    heartbeat: Heartbeat | None = None
    left: bool = False
    offsets: deque[float] = field(default_factory=lambda: deque(maxlen=SKEW_SAMPLES))

    @property
    def member(self) -> Member:
        """The edge, as a policy sees it."""
        return Member(self.announcement.edge, self.announcement.region)


@final
@dataclass
class Membership:
    """The edges that one edge knows, itself included.

    me: the name of this edge. wall: seconds since 1970 by this machine's clock, only to tell others and to measure how
    far clocks are apart. down_after: seconds without a new heartbeat after which an edge counts as down. forget_after:
    seconds without one after which an edge is forgotten. refusals: counts by reason. Every ``now`` is in seconds of a
    clock that never jumps.
    """

    me: str
    credentials: Credentials
    wall: Callable[[], float]
    down_after: float = 5.0
    forget_after: float = 7 * 24 * 3600.0
    refusals: dict[str, int] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def own(self) -> Entry:
        """What this edge says of itself."""
        return self.entries[self.me]

    def announce(self, signed: SignedAnnouncement, now: float) -> None:
        """Replace this edge's announcement, with a new heartbeat. It becomes newer than the last one if it is not."""
        announcement, old = decode_announcement(signed), self.entries.get(self.me)
        if old is not None and announcement.order <= old.announcement.order:
            version = min(old.announcement.version + 1, MAX_COUNT)
            signed = self.credentials.sign(msgspec.structs.replace(announcement, version=version))
            announcement = decode_announcement(signed)
        entry = Entry(signed, announcement, now)
        if old is not None and old.announcement.incarnation == announcement.incarnation:
            entry.heartbeat = old.heartbeat
        self.entries[self.me] = entry
        self.renew_heartbeat(now)

    def renew_heartbeat(self, now: float) -> None:
        """Sign the next heartbeat of this edge."""
        entry = self.own
        if entry.announcement.incarnation != self.credentials.incarnation.number:  # the certificate was renewed
            self.announce(self.credentials.sign(entry.announcement), now)
            return
        count = min(entry.heartbeat.count + 1, MAX_COUNT) if entry.heartbeat is not None else 1
        time = min(max(int(self.wall() * 1000), 0), MAX_COUNT)
        entry.heartbeat, entry.heard = self.credentials.sign_heartbeat(count, time), now

    def accept(self, signed: SignedAnnouncement, now: float) -> Announcement | None:
        """Take an announcement and return it; None if it is no news. Raises ``AnnouncementError`` if it is refused.

        An announcement alone does not make a known edge alive again: that takes a heartbeat.
        """
        head = read_head(signed)
        old = self.entries.get(head.edge)
        if old is not None and head.order <= old.announcement.order:
            return None
        announcement = self.credentials.verify(signed)
        if announcement.edge == self.me:
            self._rise_above(announcement, now)
            return None
        if old is None:
            if len(self.entries) >= MAX_EDGES:
                raise AnnouncementError(f"the directory is full; allowed: at most {MAX_EDGES} edges")
            entry = Entry(signed, announcement, now)
        else:
            entry = dataclasses.replace(old, signed=signed, announcement=announcement)
            if announcement.incarnation != old.announcement.incarnation:
                entry.heartbeat = None
        self.entries[announcement.edge] = entry
        return announcement

    def _rise_above(self, heard: Announcement | Heartbeat, now: float) -> None:
        """Begin an incarnation above one that others have heard of; after the last one, go on by version and count."""
        self.credentials.incarnation.rise(above=heard.incarnation)
        if self.me in self.entries:
            own = self.own.announcement
            version = heard.version + 1 if isinstance(heard, Announcement) else 0
            version = min(max(own.version, version), MAX_COUNT)
            if isinstance(heard, Heartbeat):
                self.own.heartbeat = heard
            self.announce(self.credentials.sign(msgspec.structs.replace(own, version=version)), now)
        warn("own_announcement_overtaken", heard=heard.incarnation, incarnation=self.credentials.incarnation.number)

    def is_news(self, edge: str, heartbeat: Heartbeat) -> bool:
        """Whether a heartbeat is newer than the one known, of an edge that is not banned, in the known incarnation."""
        entry = self.entries.get(edge)
        if entry is None or heartbeat.incarnation != entry.announcement.incarnation:
            return False
        known = entry.heartbeat.count if entry.heartbeat is not None else -1
        return heartbeat.count > known and not self.is_banned(entry)

    def accept_heartbeat(self, edge: str, heartbeat: Heartbeat, now: float) -> None:
        """Note a heartbeat, if it is news: its edge is alive. Raises ``AnnouncementError`` if it is refused."""
        if not self.is_news(edge, heartbeat):
            return
        entry = self.entries[edge]
        self.credentials.verify_heartbeat(entry.signed, heartbeat)
        if edge == self.me:  # this incarnation is not the first with its number: the last one could not be stored
            self._rise_above(heartbeat, now)
            return
        entry.heartbeat, entry.heard, entry.left = heartbeat, now, False
        entry.offsets.append(heartbeat.time / 1000 - self.wall())

    def leave(self, edge: str) -> None:
        """Note that an edge leaves; its next heartbeat brings it back."""
        entry = self.entries.get(edge)
        if entry is not None and edge != self.me:
            entry.left = True

    def is_banned(self, entry: Entry) -> bool:
        """Whether the policy bans an edge. Nothing that it says counts, and nothing of it is passed on."""
        return self.credentials.ban(entry.member) is not None

    def alive(self, now: float) -> dict[str, Announcement]:
        """Return the announcements of the edges that are alive, this one included."""
        return {edge: entry.announcement for edge, entry in self.entries.items() if self._is_alive(edge, entry, now)}

    def _is_alive(self, edge: str, entry: Entry, now: float) -> bool:
        if entry.announcement.gone or edge == self.me:
            return not entry.announcement.gone
        is_heard = not entry.left and now - entry.heard <= self.down_after
        return is_heard and not self.is_banned(entry) and not self.credentials.is_revoked(entry.signed)

    def skews(self, now: float) -> Mapping[str, float]:
        """Return how many seconds the clock of each edge that is alive is ahead of ours, as far as measured.

        A heartbeat on its way can only make a clock look late, so the largest of the last offsets is the best.
        """
        alive = self.alive(now)
        return {
            edge: max(entry.offsets) for edge, entry in self.entries.items() if edge in alive and len(entry.offsets)
        }

    def forget(self, now: float) -> None:
        """Drop the edges that are revoked, and those that have been down for longer than ``forget_after``."""
        self.entries = {
            edge: entry
            for edge, entry in self.entries.items()
            if edge == self.me
            or (now - entry.heard <= self.forget_after and not self.credentials.is_revoked(entry.signed))
        }
