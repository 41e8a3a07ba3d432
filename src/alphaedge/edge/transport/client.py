"""The client for other edges: a deadline that follows how fast each peer has answered, and one retry.

If an answer breaks off, the client asks for the rest of it. A peer that fails is left alone for a while, longer after
each further failure.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

import aiohttp

from alphaedge.edge.transport.peer_history import PeerHistory
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.errors import CertificateError, PeerError

MAX_ANSWER_BYTES: Final = 1_000_000_000
MAX_REASON_BYTES: Final = 300  # of an answer that refuses
CHUNK_BYTES: Final = 1 << 16


@final
@dataclass
class PeerClient:
    """Sends requests to other edges. Close it when done.

    clock: seconds, of which only differences matter. histories: by address and the edge expected there.
    """

    credentials: Credentials
    clock: Callable[[], float]
    histories: dict[tuple[str, str | None], PeerHistory] = field(default_factory=dict)
    _session: aiohttp.ClientSession | None = None

    async def request(self, address: str, endpoint: str, body: bytes, *, edge: str | None = None) -> bytes:
        """Return a peer's answer, or raise ``PeerError``. The outcome decides the next deadline and rest.

        address: host:port. edge: the edge that must answer there; None allows any of the fleet.
        """
        history = self._history(address, edge)
        began = self.clock()
        try:
            answer = await self.request_within(history.deadline(), address, endpoint, body, edge=edge)
        except PeerError:
            history.record_failure(self.clock())
            raise
        history.record_answer(self.clock() - began)
        return answer

    async def request_within(
        self, seconds: float, address: str, endpoint: str, body: bytes, *, edge: str | None = None
    ) -> bytes:
        """Return a peer's answer if it comes within ``seconds``. The peer's history stays as it is."""
        try:
            async with asyncio.timeout(seconds):
                return await _retry_once(lambda: self._post(address, endpoint, body, edge))
        except TimeoutError:
            raise PeerError(f"{address}: no answer within {seconds:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: the address is invalid
            raise PeerError(f"{address}: {type(error).__name__}: {error}") from None

    def is_resting(self, address: str, edge: str | None = None) -> bool:
        """Whether to leave a peer alone for now. Other edges announced at the same address do not rest with it."""
        history = self.histories.get((address, edge))
        return history is not None and history.is_resting(self.clock())

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _history(self, address: str, edge: str | None) -> PeerHistory:
        return self.histories.setdefault((address, edge), PeerHistory())

    async def _post(self, address: str, endpoint: str, body: bytes, edge: str | None) -> bytes:
        url, headers = f"{self.credentials.scheme}://{address}/peer", self.credentials.headers()
        session = self._open_session()
        # No redirects: a peer could point to a server outside the fleet.
        async with session.post(f"{url}/{endpoint}", data=body, headers=headers, allow_redirects=False) as response:
            self._check_identity(address, edge, response)
            if response.status != 200:
                reason = (await response.content.read(MAX_REASON_BYTES)).decode(errors="replace")
                raise PeerError(f"{address}: {response.status}: {reason}", response.status)
            data = bytearray()
            token = response.headers.get("etag", "")
            try:
                await _read_body(response, data)
                return bytes(data)
            except aiohttp.ClientPayloadError:
                if not token:
                    raise
        rest = f"{url}/again/{token}?from={len(data)}"
        async with session.get(rest, headers=headers, allow_redirects=False) as response:
            self._check_identity(address, edge, response)
            if response.status != 200:
                raise PeerError(f"{address}: the answer broke off, and its rest is no longer there", response.status)
            await _read_body(response, data)
            return bytes(data)

    def _check_identity(self, address: str, edge: str | None, response: aiohttp.ClientResponse) -> None:
        """Refuse an answer from another edge. Without certificates, nothing proves which edge answers."""
        if edge is None or self.credentials.scheme != "https":
            return
        try:
            identity = self.credentials.identify(getattr(response, "certificate", None), {})
        except CertificateError as error:
            raise PeerError(f"{address}: {error}") from None
        if identity.edge != edge:
            raise PeerError(f"{address}: {identity.edge} answers there, not {edge}")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.credentials.ssl_context(ssl.Purpose.SERVER_AUTH) or False)
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=False, response_class=_IdentifiedResponse
            )
        return self._session


class _IdentifiedResponse(aiohttp.ClientResponse):
    """A response that keeps the certificate of its sender.

    A short response releases its connection before the caller sees the status, so the certificate is read at the start.
    """

    certificate: bytes | None = None

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        tls = connection.transport.get_extra_info("ssl_object")
        self.certificate = tls.getpeercert(binary_form=True) if tls else None
        return await super().start(connection)


async def _retry_once(request: Callable[[], Awaitable[bytes]]) -> bytes:
    """Repeat a request whose connection failed: one that was kept open may have been closed by the peer since."""
    try:
        return await request()
    except aiohttp.ClientConnectorCertificateError:
        raise
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
        return await request()


async def _read_body(response: aiohttp.ClientResponse, data: bytearray) -> None:
    """Append the body to ``data``, which keeps what has arrived if the connection breaks."""
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise PeerError(f"{response.url.host}: the answer has more than {MAX_ANSWER_BYTES} bytes")
