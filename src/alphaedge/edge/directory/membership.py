"""Gossip between edges, without I/O: each tells others what it has heard (anti-entropy).

Each round an edge sends a few others a digest: the version of every record that it has, and when it last heard of
each edge. Who gets it answers with what is newer. Records are signed, so it does not matter who passes them on.

Whether an edge is alive is told apart from what it says: a heartbeat, the origin's time in milliseconds with its
signature, travels with every digest. An edge that nobody has heard of for a while counts as down; it stays in the book,
and now and then one that is down is asked all the same: that is what joins the halves of a broken net again.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.errors import AnnouncementError

AHEAD: Final = 60_000  # milliseconds that another's clock may be ahead; what is beyond was made up
MOST_REASONS, LONGEST_REASON = 100, 200  # that are counted apart, and their characters
LIVE, DEAD = 2, 1  # how many of each are asked in a round


def count(reasons: dict[str, int], reason: str) -> None:
    """Count one more of a reason; there are not many, and none is long, whatever others send."""
    reason = reason[:LONGEST_REASON]
    if reason not in reasons and len(reasons) >= MOST_REASONS:
        reason = "other reasons"
    reasons[reason] = reasons.get(reason, 0) + 1


@final
class Digest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an edge has: by edge, the version of its record, its latest heartbeat and that one's signature."""

    heard: dict[str, tuple[int, int, bytes]]


@final
class Delta(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An answer to a digest: records that the other side lacks, and what this side has."""

    records: list[SignedAnnouncement]
    digest: Digest


@final
@dataclass
class _Entry:
    record: SignedAnnouncement
    about: Announcement
    heartbeat: int = 0  # the origin's time, milliseconds
    signature: bytes = b""  # under the heartbeat
    heard: float = 0.0  # the own time at which the heartbeat last moved


@final
@dataclass
class Membership:
    """One edge's book of the others.

    verify: what a record says, or a ``AnnouncementError``. seeds: addresses to begin with. down_after: seconds without a
    sign of life after which an edge counts as down. forget_after: seconds after which one that is down is forgotten.
    sign: the own signature under a heartbeat. genuine: whether the edge of a record has signed a heartbeat.
    """

    me: str
    verify: Callable[[SignedAnnouncement], Announcement]
    seeds: Sequence[str]
    down_after: float = 5.0
    forget_after: float = 7 * 24 * 3600.0
    sign: Callable[[int], bytes] = lambda _: b""
    genuine: Callable[[SignedAnnouncement, int, bytes], bool] = lambda *_: True
    refused: dict[str, int] = field(default_factory=dict)
    _book: dict[str, _Entry] = field(default_factory=dict)

    def speak(self, record: SignedAnnouncement, now: float) -> None:
        """Set the own record, and give a sign of life."""
        about = self.verify(record)
        old = self._book.get(self.me)
        # Versions grow over restarts, also when the clock was set back, and so do heartbeats then.
        self._book[self.me] = _Entry(record, about, max(old.heartbeat if old else 0, about.version))
        self.beat(now)

    def beat(self, now: float) -> None:
        """Give a sign of life; it grows though the clock may jump back."""
        entry = self._book[self.me]
        entry.heartbeat, entry.heard = max(entry.heartbeat + 1, int(now * 1000)), now
        entry.signature = self.sign(entry.heartbeat)

    def digest(self) -> Digest:
        """What this edge has."""
        return Digest({edge: (e.about.version, e.heartbeat, e.signature) for edge, e in self._book.items()})

    def answer(self, digest: Digest, now: float) -> Delta:
        """What the sender of a digest lacks; its heartbeats are taken note of."""
        self._hear(digest, now)
        return Delta(self.owed(digest), self.digest())

    def merge(self, news: Delta, now: float) -> list[Announcement]:
        """Take in an answer; the records that were new."""
        fresh = []
        for record in news.records:
            try:
                about = self.verify(record)
            except AnnouncementError as error:
                count(self.refused, str(error))
                continue
            old = self._book.get(about.edge)
            if about.edge == self.me or (old is not None and old.about.version >= about.version):
                continue
            made = _Entry(record, about, heard=now)
            if old is not None:
                made.heartbeat, made.signature, made.heard = old.heartbeat, old.signature, old.heard
            self._book[about.edge] = made
            fresh.append(about)
        self._hear(news.digest, now)
        return fresh

    def owed(self, digest: Digest) -> list[SignedAnnouncement]:
        """What whoever has no more than this digest lacks."""
        return [
            entry.record
            for edge, entry in self._book.items()
            if digest.heard.get(edge, (-1, 0, b""))[0] < entry.about.version
        ]

    def _hear(self, digest: Digest, now: float) -> None:
        limit = int(now * 1000) + AHEAD
        for edge, (_, heartbeat, signature) in digest.heard.items():
            entry = self._book.get(edge)
            if entry is None or edge == self.me or not entry.heartbeat < heartbeat <= limit:
                continue
            if self.genuine(entry.record, heartbeat, signature):
                entry.heartbeat, entry.signature, entry.heard = heartbeat, signature, now
            else:
                count(self.refused, f"a heartbeat of {edge} is not signed by it")

    def alive(self, now: float) -> dict[str, Announcement]:
        """The edges that are there, this one included."""
        return {
            edge: e.about
            for edge, e in self._book.items()
            if not e.about.gone and (edge == self.me or now - e.heard <= self.down_after)
        }

    def forget(self, now: float) -> None:
        """Drop edges that have been down for so long that they will not come back."""
        old = [edge for edge, e in self._book.items() if edge != self.me and now - e.heard > self.forget_after]
        for edge in old:
            del self._book[edge]

    def next(self, rng: random.Random, now: float) -> list[str]:
        """The addresses to ask in this round: two of edges that are there, and one that is down or a seed."""
        there = self.alive(now)
        own = self._book[self.me].about.address
        live = sorted({a.address for edge, a in there.items() if edge != self.me})
        others = {e.about.address for edge, e in self._book.items() if edge not in there and not e.about.gone}
        dead = sorted((others | set(self.seeds)) - set(live) - {own})
        return rng.sample(live, min(LIVE, len(live))) + rng.sample(dead, min(DEAD, len(dead)))
