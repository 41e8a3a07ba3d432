"""A directory without a server: edges tell each other what they know, over the port that models are pulled from."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final, TypeVar, final

import msgspec

from alphaedge.edge.directory.clock_skew import SkewAlarm
from alphaedge.edge.directory.exchange import Delta, DeltaOutline, Digest, Exchange
from alphaedge.edge.directory.membership_view import MembershipView
from alphaedge.edge.log import warn
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import Route
from alphaedge.edge.trust.announcements import SignedAnnouncement
from alphaedge.edge.trust.certificates import Identity
from alphaedge.errors import BadPeerRequest, PeerError, PeerForbidden, PeerRequestTooLarge
from alphaedge.steps import run_in_slices

T = TypeVar("T")
ROUND_SECONDS: Final = 1.0  # between two rounds of gossip
MIN_PAUSE_SECONDS: Final = 0.1  # between two rounds if there is a new announcement
MAX_DIGEST_BYTES, MAX_DELTA_BYTES, MAX_ANSWER_BYTES = 1_000_000, 1_000_000, 1_750_000  # enough for the largest fleet
REQUEST_TIMEOUT_SECONDS: Final = 2.0


@final
class Gossip(MembershipView):
    """Drives an exchange: contacts peers every second, and answers theirs.

    clock: seconds, of which only differences matter; it never jumps. Add ``routes()`` to the port for other edges.
    """

    def __init__(self, exchange: Exchange, client: PeerClient, clock: Callable[[], float], rng: random.Random) -> None:
        super().__init__(exchange.membership, clock)
        self._exchange, self._client, self._rng = exchange, client, rng
        self._skew_alarm = SkewAlarm(exchange.membership.me)
        self._task: asyncio.Task[None] | None = None
        self._announced = asyncio.Event()  # a new announcement need not wait for the next round

    def routes(self) -> dict[str, Route]:
        """Return the endpoints that other edges send gossip to."""
        return {
            "gossip": Route(self._answer_digest, MAX_DIGEST_BYTES),
            "delta": Route(self._receive_delta, MAX_DELTA_BYTES),
        }

    async def start(self) -> None:
        """See ``Directory``."""
        self._task = asyncio.create_task(self._run())

    async def announce(self, signed: SignedAnnouncement) -> None:
        """See ``Directory``."""
        self._membership.announce(signed, self._clock())
        self._announced.set()

    async def close(self) -> None:
        """See ``Directory``. One last round spreads the last announcement."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._gossip_once()

    async def _run(self) -> None:
        while True:
            self._announced.clear()
            await self._gossip_once()
            await asyncio.sleep(MIN_PAUSE_SECONDS)
            # Not ``wait_for``: before Python 3.12 it may lose a cancellation that coincides with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROUND_SECONDS - MIN_PAUSE_SECONDS):
                    await self._announced.wait()

    async def _gossip_once(self) -> None:
        now = self._clock()
        self._membership.renew_heartbeat(now)
        self._membership.forget(now)
        for event, fields in self._skew_alarm.check(self._membership.skews(now)):
            warn(event, **fields)
        contacts = self._exchange.choose_contacts(self._rng, now)
        await asyncio.gather(*(self._exchange_with(address) for address in contacts))

    async def _exchange_with(self, address: str) -> None:
        """Take what a peer knows, and send it what it lacks. The peer may be down."""
        try:
            digest = msgspec.msgpack.encode(self._exchange.digest())
            delta = self._decode_delta(address, await self._send(address, "gossip", digest))
            await run_in_slices(self._exchange.read_delta(address, delta, self._clock()))
            missing = self._exchange.last_delta(delta.digest)
            if missing is not None:
                await self._send(address, "delta", msgspec.msgpack.encode(missing))
        except (PeerError, BadPeerRequest, PeerForbidden, PeerRequestTooLarge):
            pass  # a later round asks it again
        except Exception as error:  # whatever a peer sends, gossip goes on
            warn("gossip_failed", address=address, reason=f"{type(error).__name__}: {error}")

    async def _send(self, address: str, endpoint: str, message: bytes) -> bytes:
        return await self._client.request_within(
            REQUEST_TIMEOUT_SECONDS, address, endpoint, message, max_bytes=MAX_ANSWER_BYTES
        )

    async def _answer_digest(self, sender: Identity, message: bytes) -> bytes:
        digest = self._decode(sender.edge, message, Digest)
        await run_in_slices(self._exchange.read_digest(sender.edge, digest, self._clock()))
        return msgspec.msgpack.encode(self._exchange.delta(digest))

    async def _receive_delta(self, sender: Identity, message: bytes) -> bytes:
        delta = self._decode_delta(sender.edge, message)
        await run_in_slices(self._exchange.read_delta(sender.edge, delta, self._clock()))
        return b""

    def _decode_delta(self, sender: str, message: bytes) -> Delta:
        self._exchange.check_outline(self._decode(sender, message, DeltaOutline))
        return self._decode(sender, message, Delta)

    def _decode(self, sender: str, message: bytes, kind: type[T]) -> T:
        self._exchange.senders.check(sender, self._clock())
        try:
            return msgspec.msgpack.decode(message, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadPeerRequest(f"not a {'digest' if kind is Digest else 'delta'} in MessagePack ({error})") from None
