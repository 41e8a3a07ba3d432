"""What one edge knows of its fleet by gossip (anti-entropy). Pure: no I/O, and the time is an argument.

Each round, an edge sends a digest to a few others: the version of every announcement that it has, and the latest
heartbeat of every edge. The receiver answers with a delta, what it has that is newer. Announcements are signed, so it
does not matter which edge passes them on.

Heartbeats are separate from announcements. A heartbeat, the signed time of its edge in milliseconds, travels with every
digest. An edge whose heartbeat has not moved for a while counts as down. It stays in the membership, and each round
contacts one edge that is down or a seed: this joins the halves of a partitioned network again.
"""

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.errors import AnnouncementError

MAX_CLOCK_LEAD_MS: Final = 60_000  # how far another clock may be ahead; a heartbeat beyond that is forged
MAX_REASONS: Final = 100  # that are counted separately
MAX_REASON_CHARACTERS: Final = 200
OTHER_REASONS: Final = "other reasons"
LIVE_CONTACTS: Final = 2  # per round
DOWN_CONTACTS: Final = 1  # per round, seeds included


def count_refusal(refusals: dict[str, int], reason: str) -> None:
    """Count a refusal by its reason. Reasons stay few and short, whatever peers send."""
    reason = reason[:MAX_REASON_CHARACTERS]
    if reason not in refusals and len(refusals) >= MAX_REASONS:
        reason = OTHER_REASONS
    refusals[reason] = refusals.get(reason, 0) + 1


@final
class Digest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an edge has.

    versions: by edge, the version of its announcement, its latest heartbeat in milliseconds and the signature of that
    heartbeat.
    """

    versions: dict[str, tuple[int, int, bytes]]


@final
class Delta(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An answer to a digest.

    announcements: those that the sender of the digest lacks. digest: what this edge has.
    """

    announcements: list[SignedAnnouncement]
    digest: Digest


@final
@dataclass
class _Entry:
    """What is known of one edge. heartbeat: its own time in milliseconds. heard: our time when that last moved."""

    signed: SignedAnnouncement
    announcement: Announcement
    heartbeat: int = 0
    heartbeat_signature: bytes = b""
    heard: float = 0.0


@final
@dataclass
class Membership:
    """The edges that one edge knows.

    me: the name of this edge. verify: decodes an announcement or raises ``AnnouncementError``. seeds: addresses to
    start from. down_after: seconds without a new heartbeat after which an edge counts as down. forget_after: seconds
    without one after which an edge is forgotten. sign_heartbeat: signs a heartbeat of this edge. verify_heartbeat:
    checks that the edge of an announcement has signed a heartbeat. refusals: counts by reason.
    """

    me: str
    verify: Callable[[SignedAnnouncement], Announcement]
    seeds: Sequence[str]
    down_after: float = 5.0
    forget_after: float = 7 * 24 * 3600.0
    sign_heartbeat: Callable[[int], bytes] = lambda _: b""
    verify_heartbeat: Callable[[SignedAnnouncement, int, bytes], bool] = lambda *_: True
    refusals: dict[str, int] = field(default_factory=dict)
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def announce(self, signed: SignedAnnouncement, now: float) -> None:
        """Replace this edge's announcement, with a new heartbeat."""
        announcement = self.verify(signed)
        old = self._entries.get(self.me)
        # Versions grow across restarts even if the clock was set back. Starting from them, heartbeats do too.
        heartbeat = max(old.heartbeat if old else 0, announcement.version)
        self._entries[self.me] = _Entry(signed, announcement, heartbeat)
        self.renew_heartbeat(now)

    def renew_heartbeat(self, now: float) -> None:
        """Raise this edge's heartbeat to the current time, or by 1 if the clock has jumped back."""
        entry = self._entries[self.me]
        entry.heartbeat, entry.heard = max(entry.heartbeat + 1, int(now * 1000)), now
        entry.heartbeat_signature = self.sign_heartbeat(entry.heartbeat)

    def digest(self) -> Digest:
        """Summarise what this edge has."""
        return Digest(
            {
                edge: (entry.announcement.version, entry.heartbeat, entry.heartbeat_signature)
                for edge, entry in self._entries.items()
            }
        )

    def answer(self, digest: Digest, now: float) -> Delta:
        """Merge the heartbeats of a digest, and return what its sender lacks."""
        self._merge_heartbeats(digest, now)
        return Delta(self.newer_than(digest), self.digest())

    def merge(self, delta: Delta, now: float) -> list[Announcement]:
        """Merge a delta; return the announcements that were new."""
        new = []
        for signed in delta.announcements:
            try:
                announcement = self.verify(signed)
            except AnnouncementError as error:
                count_refusal(self.refusals, str(error))
                continue
            old = self._entries.get(announcement.edge)
            if announcement.edge == self.me or (old is not None and old.announcement.version >= announcement.version):
                continue
            if old is None:
                entry = _Entry(signed, announcement, heard=now)
            else:
                entry = dataclasses.replace(old, signed=signed, announcement=announcement)
            self._entries[announcement.edge] = entry
            new.append(announcement)
        self._merge_heartbeats(delta.digest, now)
        return new

    def newer_than(self, digest: Digest) -> list[SignedAnnouncement]:
        """Return the announcements that the sender of a digest lacks."""
        return [
            entry.signed
            for edge, entry in self._entries.items()
            if digest.versions.get(edge, (-1, 0, b""))[0] < entry.announcement.version
        ]

    def _merge_heartbeats(self, digest: Digest, now: float) -> None:
        limit = int(now * 1000) + MAX_CLOCK_LEAD_MS
        for edge, (_, heartbeat, signature) in digest.versions.items():
            entry = self._entries.get(edge)
            if entry is None or edge == self.me or not entry.heartbeat < heartbeat <= limit:
                continue
            if self.verify_heartbeat(entry.signed, heartbeat, signature):
                entry.heartbeat, entry.heartbeat_signature, entry.heard = heartbeat, signature, now
            else:
                count_refusal(self.refusals, f"a heartbeat of {edge} has a wrong signature")

    def alive(self, now: float) -> dict[str, Announcement]:
        """Return the announcements of the edges that are alive, this one included."""
        return {
            edge: entry.announcement
            for edge, entry in self._entries.items()
            if not entry.announcement.gone and (edge == self.me or now - entry.heard <= self.down_after)
        }

    def forget(self, now: float) -> None:
        """Drop the edges that have been down for longer than ``forget_after``."""
        self._entries = {
            edge: entry
            for edge, entry in self._entries.items()
            if edge == self.me or now - entry.heard <= self.forget_after
        }

    def choose_contacts(self, rng: random.Random, now: float) -> list[str]:
        """Choose the addresses to contact in this round: two edges that are alive, and one that is down or a seed."""
        alive = self.alive(now)
        own = self._entries[self.me].announcement.address
        live = sorted({announcement.address for edge, announcement in alive.items() if edge != self.me})
        others = [entry.announcement for edge, entry in self._entries.items() if edge not in alive]
        down = {announcement.address for announcement in others if not announcement.gone}
        candidates = sorted((down | set(self.seeds)) - set(live) - {own})
        return rng.sample(live, min(LIVE_CONTACTS, len(live))) + rng.sample(
            candidates, min(DOWN_CONTACTS, len(candidates))
        )
