"""Where edges find each other: what each says of itself, and who is there. Two kinds, with and without a server."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, final

import msgspec

from alphaedge.edge.directory.membership import Delta, Digest, Membership
from alphaedge.edge.log import warn
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import Handler
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.certificates import Identity
from alphaedge.errors import BadPeerRequest, PeerError

T = TypeVar("T")
ROUND: Final = 1.0  # seconds between two rounds of gossip
PAUSE: Final = 0.1  # ... and if there is news
MOST_BYTES: Final = 20_000_000  # of what another says at once
PATIENCE: Final = 2.0  # seconds that an answer to gossip may take


@final
class Gossip:
    """A directory without a server: edges tell each other, over the port that they fetch models from.

    book: what is known. clock: seconds since 1970. ``handlers()`` belong on the port for other edges.
    """

    def __init__(self, book: Membership, client: PeerClient, clock: Callable[[], float], rng: random.Random) -> None:
        self._book, self._client, self._clock, self._rng = book, client, clock, rng
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()  # something to tell, which need not wait for the next round

    def handlers(self) -> dict[str, Handler]:
        """What other edges ask for."""
        return {"gossip": self._asked, "news": self._told}

    async def start(self) -> None:
        """See ``Directory``."""
        self._task = asyncio.create_task(self._for_ever())

    async def speak(self, record: SignedAnnouncement) -> None:
        """See ``Directory``."""
        self._book.speak(record, self._clock())
        self._news.set()

    def alive(self) -> Mapping[str, Announcement]:
        """See ``Directory``."""
        return self._book.alive(self._clock())

    def refused(self) -> Mapping[str, int]:
        """See ``Directory``."""
        return self._book.refused

    async def close(self) -> None:
        """See ``Directory``. One last round, so that the others hear the last word."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._round()

    async def _for_ever(self) -> None:
        while True:
            self._news.clear()
            await self._round()
            await asyncio.sleep(PAUSE)
            # Not ``wait_for``: before Python 3.12 it may lose a cancellation that comes together with the news.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND - PAUSE):
                    await self._news.wait()

    async def _round(self) -> None:
        now = self._clock()
        self._book.beat(now)
        self._book.forget(now)
        await asyncio.gather(*(self._exchange(address) for address in self._book.next(self._rng, now)))

    async def _exchange(self, address: str) -> None:
        """Hear what another has heard, and tell it what it lacks; it may well be down."""
        try:
            digest = msgspec.msgpack.encode(self._book.digest())
            news = _decoded(await self._client.within(PATIENCE, address, "gossip", digest), Delta)
            self._book.merge(news, self._clock())
            owed = self._book.owed(news.digest)
            if owed:
                told = msgspec.msgpack.encode(Delta(owed, self._book.digest()))
                await self._client.within(PATIENCE, address, "news", told)
        except (PeerError, BadPeerRequest):
            pass  # it is asked again in another round
        except Exception as error:  # whatever another has come up with, gossip goes on
            warn("gossip with a peer has failed", address=address, reason=f"{type(error).__name__}: {error}")

    async def _asked(self, sender: Identity, data: bytes) -> bytes:
        return msgspec.msgpack.encode(self._book.answer(_decoded(data, Digest), self._clock()))

    async def _told(self, sender: Identity, data: bytes) -> bytes:
        self._book.merge(_decoded(data, Delta), self._clock())
        return b""


def _decoded(data: bytes, kind: type[T]) -> T:
    if len(data) > MOST_BYTES:
        raise BadPeerRequest(f"{len(data)} bytes of gossip; allowed: at most {MOST_BYTES}")
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadPeerRequest(f"it can't be read ({error})") from None
