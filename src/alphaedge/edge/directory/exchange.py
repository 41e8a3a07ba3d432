"""What two edges tell each other when they gossip (anti-entropy). Pure: no I/O, and the time is an argument.

An edge sends a digest: the version of every announcement that it has, and the latest heartbeat of every edge. The
receiver answers with a delta, what it has that is newer. Announcements, heartbeats and revocation lists are signed, so
it does not matter which edge passes them on.

The work that a message may cause is bounded. It has a limited number of entries, only what is news is verified, and
reading ends at the third false signature. Reading is a sequence of steps with one signature each, so that the caller
can do something else in between.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, Final, final

import msgspec

from alphaedge.edge.directory.membership import MAX_EDGES, Membership, count_refusal
from alphaedge.edge.directory.senders import Senders
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.heartbeats import Heartbeat
from alphaedge.edge.trust.incarnation import Count, IncarnationNumber
from alphaedge.edge.trust.revocations import SignedRevocations
from alphaedge.errors import AnnouncementError, ForgedAnnouncement, PeerRequestTooLarge
from alphaedge.steps import Steps

ANNOUNCEMENTS_PER_EDGE: Final = 2  # in a delta, for each edge that the receiver knows
MORE_ANNOUNCEMENTS: Final = 32  # in a delta besides, so that a new edge learns of others
TOLERANCE: Final = 32  # a receiver accepts so many more, because it may have forgotten edges meanwhile
MAX_ANNOUNCEMENTS_BYTES: Final = 300_000  # in a delta, unless the first is larger
BYTES_TOLERANCE: Final = 100_000  # a receiver accepts so many more, because lengths are encoded, too
MAX_FORGED: Final = 3  # false signatures in a message
MAX_REFUSED: Final = 16  # announcements in a message that are refused for another reason
LIVE_CONTACTS: Final = 2  # per round
DOWN_CONTACTS: Final = 1  # per round, seeds included


@final
class Digest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an edge has.

    versions: by edge, the incarnation and the version of its announcement, and its latest heartbeat if there is one.
    revocations: number of the revocation list.
    """

    versions: Annotated[
        dict[str, tuple[IncarnationNumber, Count, Heartbeat | None]], msgspec.Meta(max_length=MAX_EDGES)
    ]
    revocations: Count = 0


@final
class Delta(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the sender of a digest lacks.

    announcements: those that it lacks. digest: in the answer, what this edge has; in the message after that, only the
    edges whose announcements are in it. revocations: the revocation list, if the sender of the digest has an older one.
    """

    announcements: Annotated[list[SignedAnnouncement], msgspec.Meta(max_length=MAX_EDGES)]
    digest: Digest
    revocations: SignedRevocations | None = None


@final
class DeltaOutline(msgspec.Struct, frozen=True, array_like=True):
    """A delta whose announcements are not decoded, only counted and measured."""

    announcements: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_EDGES)]


def max_announcements(known: int) -> int:
    """Return how many announcements a delta may have for an edge that knows so many edges."""
    return min(ANNOUNCEMENTS_PER_EDGE * known + MORE_ANNOUNCEMENTS, MAX_EDGES)


@final
@dataclass
class Exchange:
    """Reads and writes the messages of one edge. seeds: addresses to start from. senders: how others behave."""

    membership: Membership
    seeds: Collection[str] = ()
    senders: Senders = field(default_factory=Senders)

    def digest(self) -> Digest:
        """Summarise what this edge has."""
        entries = self.membership.entries.items()
        versions = {edge: (*entry.announcement.order, entry.heartbeat) for edge, entry in entries}
        return Digest(versions, self.membership.credentials.revocations.number)

    def delta(self, digest: Digest) -> Delta:
        """Answer a digest."""
        return Delta(list(self._newer_than(digest).values()), self.digest(), self._newer_revocations(digest))

    def last_delta(self, digest: Digest) -> Delta | None:
        """Answer the digest of an answer, if there is anything to tell: this edge's own digest was sent before."""
        newer, revocations, own = self._newer_than(digest), self._newer_revocations(digest), self.digest()
        if not newer and revocations is None:
            return None
        told = Digest({edge: own.versions[edge] for edge in newer}, own.revocations)
        return Delta(list(newer.values()), told, revocations)

    def _newer_revocations(self, digest: Digest) -> SignedRevocations | None:
        revocations = self.membership.credentials.revocations
        return revocations.signed if digest.revocations < revocations.number else None

    def _newer_than(self, digest: Digest) -> dict[str, SignedAnnouncement]:
        """Return the announcements that the sender of a digest lacks, as many as it accepts; the living ones first."""
        found, size = dict[str, SignedAnnouncement](), 0
        for edge, entry in sorted(self.membership.entries.items(), key=lambda item: -item[1].heard):
            known = digest.versions.get(edge, (-1, 0, None))[:2]
            if known >= entry.announcement.order or self.membership.is_banned(entry):
                continue
            size += len(entry.signed.payload) + len(entry.signed.signature) + len(entry.signed.certificate)
            if found and (len(found) >= max_announcements(len(digest.versions)) or size > MAX_ANNOUNCEMENTS_BYTES):
                break
            found[edge] = entry.signed
        return found

    def check_outline(self, delta: DeltaOutline) -> None:
        """Refuse a delta with too many announcements, or with too large ones, before they are decoded."""
        self._check_count(len(delta.announcements))
        size, allowed = sum(len(memoryview(one)) for one in delta.announcements), MAX_ANNOUNCEMENTS_BYTES
        if size > allowed + BYTES_TOLERANCE:
            raise PeerRequestTooLarge(f"{size} bytes of announcements; allowed: at most {allowed}")

    def _check_count(self, announcements: int) -> None:
        allowed = max_announcements(len(self.membership.entries)) + TOLERANCE
        if announcements > allowed:
            raise PeerRequestTooLarge(f"{announcements} announcements; allowed: at most {allowed}")

    def read_digest(self, sender: str, digest: Digest, now: float) -> Steps[None]:
        """Take the heartbeats of a digest, step by step. sender: edge or address that it comes from."""
        message = _Message(self, sender, now)
        yield from self._read_heartbeats(message, digest)
        message.end()

    def read_delta(self, sender: str, delta: Delta, now: float) -> Steps[None]:
        """Take what a delta has that is newer, step by step. sender: edge or address that it comes from."""
        self._check_count(len(delta.announcements))
        message = _Message(self, sender, now)
        if delta.revocations is not None:
            self._read_revocations(message, delta.revocations)
            yield
        for signed in delta.announcements:
            if message.is_over:
                break
            try:
                self.membership.accept(signed, now)
            except AnnouncementError as error:
                message.refuse(error)
            yield
        yield from self._read_heartbeats(message, delta.digest)
        message.end()

    def _read_revocations(self, message: "_Message", signed: SignedRevocations) -> None:
        try:
            if self.membership.credentials.revocations.offer(signed):
                self.membership.forget(message.now)
        except AnnouncementError as error:
            message.refuse(error)

    def _read_heartbeats(self, message: "_Message", digest: Digest) -> Steps[None]:
        for edge, (_, _, heartbeat) in digest.versions.items():
            if message.is_over:
                break
            if heartbeat is None or not self.membership.is_news(edge, heartbeat):
                continue
            try:
                self.membership.accept_heartbeat(edge, heartbeat, message.now)
            except AnnouncementError as error:
                message.refuse(error)
            yield

    def choose_contacts(self, rng: random.Random, now: float) -> list[str]:
        """Choose the addresses to contact in this round: two edges that are alive, and one that is down or a seed."""
        membership, alive = self.membership, self.membership.alive(now)
        own = membership.own.announcement.address
        live = {announcement.address for edge, announcement in alive.items() if edge != membership.me}
        others = [entry for edge, entry in membership.entries.items() if edge not in alive]
        down = {e.announcement.address for e in others if not e.announcement.gone and not membership.is_banned(e)}
        candidates = (down | set(self.seeds)) - live - {own}
        return self._sample(live, LIVE_CONTACTS, rng, now) + self._sample(candidates, DOWN_CONTACTS, rng, now)

    def _sample(self, addresses: set[str], count: int, rng: random.Random, now: float) -> list[str]:
        ready = sorted(address for address in addresses if not self.senders.is_resting(address, now))
        return rng.sample(ready, min(count, len(ready)))


@final
@dataclass
class _Message:
    """A message that is being read. is_over: too much of it was refused; the rest is not read."""

    exchange: Exchange
    sender: str
    now: float
    is_over: bool = False
    _forged: int = 0
    _refused: int = 0

    def refuse(self, error: AnnouncementError) -> None:
        count_refusal(self.exchange.membership.refusals, str(error))
        if isinstance(error, ForgedAnnouncement):
            self._forged += 1
        else:
            self._refused += 1
        self.is_over = self._forged >= MAX_FORGED or self._refused >= MAX_REFUSED

    def end(self) -> None:
        if self._forged:
            self.exchange.senders.blame(self.sender, self.now)
        else:
            self.exchange.senders.forgive(self.sender)
