"""What edges tell each other through NATS: beacons, and news for an edge whose beacon is old. Pure: no I/O.

A beacon is an edge's announcement with its latest heartbeat. An edge whose beacon repeats something old has lost its
disk, or has an old revocation list. Another edge then publishes as news what it lacks: after a random while, unless one
of the others has done so before.
"""

import random
from dataclasses import dataclass, field
from typing import Final, TypeVar, final

import msgspec

from alphaedge.edge.directory.membership import Membership, count_refusal
from alphaedge.edge.directory.senders import Senders
from alphaedge.edge.trust.announcements import SignedAnnouncement, read_head
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.incarnation import Count
from alphaedge.edge.trust.revocations import SignedRevocations
from alphaedge.errors import AnnouncementError, ForgedAnnouncement

T = TypeVar("T")
REVOCATIONS: Final = ""  # stands for the revocation list, where an edge's name stands for its announcement


@final
class Beacon(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an edge repeats.

    signed: its announcement. heartbeat: a new one each time. revocations: number of the revocation list that it has.
    """

    signed: SignedAnnouncement
    heartbeat: Heartbeat
    revocations: Count


@final
class News(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an edge was found to lack. signed: its own newest announcement. revocations: the revocation list."""

    signed: SignedAnnouncement | None = None
    revocations: SignedRevocations | None = None


@final
@dataclass
class Beacons:
    """Reads and writes the messages of one edge. wait: seconds at most until it publishes what another edge lacks."""

    membership: Membership
    wait: float
    rng: random.Random
    senders: Senders = field(default_factory=Senders)
    _lacking: dict[str, float] = field(default_factory=dict)  # when to publish the news of what

    def write(self, now: float) -> bytes:
        """Return this edge's next beacon, with a new heartbeat."""
        self.membership.renew_heartbeat(now)
        own = self.membership.own
        assert own.heartbeat is not None
        return msgspec.msgpack.encode(Beacon(own.signed, own.heartbeat, self.membership.credentials.revocations.number))

    def read(self, edge: str, value: bytes, now: float) -> None:
        """Take the value of an edge's key, or refuse it."""
        if self.senders.is_resting(edge, now):
            return
        try:
            beacon = _decode(value, Beacon, f"the value under the key of {edge}")
            head = read_head(beacon.signed)
            if head.edge != edge:
                claimed = self.membership.credentials.verify(beacon.signed).edge
                raise ForgedAnnouncement(f"an announcement of {claimed} is under the key of {edge}")
            self.membership.accept(beacon.signed, now)
            self.membership.accept_heartbeat(edge, beacon.heartbeat, now)
        except AnnouncementError as error:
            self._refuse(edge, error, now)
            return
        self.senders.forgive(edge)
        known = self.membership.entries.get(edge)
        if known is not None and edge != self.membership.me and head.order < known.announcement.order:
            self._plan(edge, now)
        if beacon.revocations < self.membership.credentials.revocations.number:
            self._plan(REVOCATIONS, now)

    def _plan(self, of: str, now: float) -> None:
        self._lacking.setdefault(of, now + self.rng.uniform(0, self.wait))

    def write_news(self, now: float) -> list[bytes]:
        """Return the news that are due."""
        due = [of for of, moment in self._lacking.items() if moment <= now]
        return [self._write_news(of) for of in due]

    def _write_news(self, of: str) -> bytes:
        del self._lacking[of]
        known = self.membership.entries.get(of)
        revocations = self.membership.credentials.revocations.signed if of == REVOCATIONS else None
        return msgspec.msgpack.encode(News(known.signed if known is not None else None, revocations))

    def read_news(self, sender: str, value: bytes, now: float) -> None:
        """Take news that another edge has published, or refuse them."""
        if sender == self.membership.me or self.senders.is_resting(sender, now):
            return
        try:
            news = _decode(value, News, f"news of {sender}")
            if news.signed is not None:
                self._lacking.pop(read_head(news.signed).edge, None)
                self.membership.accept(news.signed, now)
            if news.revocations is not None:
                self._lacking.pop(REVOCATIONS, None)
                if self.membership.credentials.revocations.offer(news.revocations):
                    self.membership.forget(now)
        except AnnouncementError as error:
            self._refuse(sender, error, now)

    def _refuse(self, sender: str, error: AnnouncementError, now: float) -> None:
        count_refusal(self.membership.refusals, str(error))
        if isinstance(error, ForgedAnnouncement):
            self.senders.blame(sender, now)


def _decode(value: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AnnouncementError(f"{what} can't be decoded ({error})") from None
