"""The end that asks other edges: with a deadline that follows how fast each was before, and one retry.

An answer that breaks off is asked for again from where it broke off. A peer that fails is left alone for a while, and
longer each time.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

import aiohttp

from alphaedge.edge.trust.credentials import Credentials
from alphaedge.errors import CertificateError, PeerError

LARGEST_ANSWER: Final = 1_000_000_000  # bytes
LONGEST_REASON: Final = 300  # bytes of what a peer says that refuses
SHORTEST, LONGEST = 2.0, 60.0  # seconds for an answer
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds that a failing peer is left alone
CHUNK: Final = 1 << 16


@final
@dataclass
class PeerHistory:
    """How a peer has behaved: how long it takes, and whether to leave it alone for now."""

    usual: float = 0.0  # seconds that its answers take, smoothed
    failures: int = 0
    rest_until: float = 0.0

    def deadline(self) -> float:
        """Seconds that its next answer may take."""
        return min(LONGEST, max(SHORTEST, 5 * self.usual)) if self.usual else LONGEST / 2

    def answered(self, seconds: float) -> None:
        """It answered."""
        self.usual = seconds if not self.usual else 0.7 * self.usual + 0.3 * seconds
        self.failures, self.rest_until = 0, 0.0

    def failed(self, now: float) -> None:
        """It did not."""
        self.failures += 1
        self.rest_until = now + min(LONGEST_REST, FIRST_REST * 2.0 ** (self.failures - 1))
        self.usual = min(LONGEST, 2 * self.usual)


@final
@dataclass
class PeerClient:
    """The end that asks. ``clock`` in seconds, only for differences. Close it when done."""

    trust: Credentials
    clock: Callable[[], float]
    manners: dict[tuple[str, str | None], PeerHistory] = field(default_factory=dict)  # of who is said to be where
    _session: aiohttp.ClientSession | None = None

    async def ask(self, address: str, what: str, body: bytes, *, edge: str | None = None) -> bytes:
        """An answer within the peer's deadline. edge: who must be the one that answers."""
        manner = self._manner(address, edge)
        began, deadline = self.clock(), manner.deadline()
        try:
            found = await self.within(deadline, address, what, body, edge=edge)
        except PeerError:
            manner.failed(self.clock())
            raise
        manner.answered(self.clock() - began)
        return found

    async def within(self, seconds: float, address: str, what: str, body: bytes, *, edge: str | None = None) -> bytes:
        """An answer within so many seconds; how it goes changes nothing for the next time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._retried(lambda: self._post(address, what, body, edge))
        except TimeoutError:
            raise PeerError(f"{address}: no answer in {seconds:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: an address that is none
            raise PeerError(f"{address}: {type(error).__name__}: {error}") from None

    def resting(self, address: str, edge: str | None = None) -> bool:
        """Whether a peer is left alone for now. Others at its address, so far as anybody says, are not."""
        return self._manner(address, edge).rest_until > self.clock()

    def _manner(self, address: str, edge: str | None) -> PeerHistory:
        return self.manners.setdefault((address, edge), PeerHistory())

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _retried(self, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        try:
            return await ask()
        except aiohttp.ClientConnectorCertificateError:
            raise
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            return await ask()

    async def _post(self, address: str, what: str, body: bytes, edge: str | None) -> bytes:
        url = f"{self.trust.scheme}://{address}/peer"
        # Nobody is sent elsewhere: what a peer points to may be none of the fleet.
        asking = self._open().post(f"{url}/{what}", data=body, headers=self.trust.headers(), allow_redirects=False)
        async with asking as response:
            self._identified(address, edge, response)
            if response.status != 200:
                reason = (await response.content.read(LONGEST_REASON)).decode(errors="replace")
                raise PeerError(f"{address}: {response.status}: {reason}", response.status)
            data = bytearray()
            token = response.headers.get("etag", "")
            try:
                await _read(response, data)
                return bytes(data)
            except aiohttp.ClientPayloadError:
                if not token:
                    raise
        rest = f"{url}/again/{token}?from={len(data)}"
        async with self._open().get(rest, headers=self.trust.headers(), allow_redirects=False) as response:
            self._identified(address, edge, response)
            if response.status != 200:
                raise PeerError(f"{address}: its answer broke off, and the rest is gone", response.status)
            await _read(response, data)
            return bytes(data)

    def _identified(self, address: str, edge: str | None, response: aiohttp.ClientResponse) -> None:
        """Without certificates nobody can tell who answers."""
        if edge is None or self.trust.scheme != "https":
            return
        try:
            found = self.trust.identify(getattr(response, "certificate", None), {})
        except CertificateError as error:
            raise PeerError(f"{address}: {error}") from None
        if found.edge != edge:
            raise PeerError(f"{address}: {found.edge} answers there, not {edge}")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.trust.context(ssl.Purpose.SERVER_AUTH) or False)
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=False, response_class=_Identified
            )
        return self._session


class _Identified(aiohttp.ClientResponse):
    """A response that remembers who sent it: a short one has let go of its connection when its status is known."""

    certificate: bytes | None = None

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        tls = connection.transport.get_extra_info("ssl_object")
        self.certificate = tls.getpeercert(binary_form=True) if tls else None
        return await super().start(connection)


async def _read(response: aiohttp.ClientResponse, data: bytearray) -> None:
    async for part in response.content.iter_chunked(CHUNK):
        data += part
        if len(data) > LARGEST_ANSWER:
            raise PeerError(f"{response.url.host}: an answer of more than {LARGEST_ANSWER} bytes")
