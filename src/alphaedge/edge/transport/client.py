"""The client for other edges. A request has one deadline, a least throughput and a largest answer.

The deadline is for everything: the connection, the answer, and one retry. It is the same for every peer at any time, so
that no peer earns itself more by being slow. If an answer breaks off, the client asks for the rest of it. A peer that
fails, or whose answer is refused, is left alone for a while, longer each time.
"""

import asyncio
import io
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, final

import aiohttp

from alphaedge.edge.transport.connections import MAX_PER_MEMBER
from alphaedge.edge.transport.pace import Pace
from alphaedge.edge.transport.peer_history import PeerHistory
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.errors import CertificateError, PeerError

DEADLINE_SECONDS: Final = 15.0
MAX_REASON_BYTES: Final = 300  # of an answer that refuses
MAX_CONNECTIONS: Final = 64
MAX_HISTORIES: Final = 1024
PLAIN: Final = {"accept-encoding": "identity"}


@final
@dataclass
class PeerClient:
    """Sends requests to other edges. Close it when done.

    clock: seconds, of which only differences matter. deadline_seconds: for a request. histories: by address and the
    edge expected there.
    """

    credentials: Credentials
    clock: Callable[[], float]
    deadline_seconds: float = DEADLINE_SECONDS
    histories: OrderedDict[tuple[str, str | None], PeerHistory] = field(default_factory=OrderedDict)
    _session: aiohttp.ClientSession | None = None

    async def request(
        self,
        address: str,
        endpoint: str,
        body: bytes,
        *,
        max_bytes: int,
        edge: str | None = None,
        spent: float = 0.0,
    ) -> bytes:
        """Return a peer's answer, or raise ``PeerError``, after which the peer rests.

        Call ``record_acceptance`` or ``record_refusal`` once it is clear whether the answer is of use. address:
        host:port. max_bytes: the largest answer. edge: who must answer there; None allows any edge of the fleet. spent:
        seconds of the deadline that an earlier request for the same took.
        """
        seconds = max(0.0, self.deadline_seconds - spent)
        try:
            return await self.request_within(seconds, address, endpoint, body, max_bytes=max_bytes, edge=edge)
        except PeerError as error:
            self._history(address, edge).record_failure(self.clock(), error.retry_after)
            raise

    async def request_within(
        self, seconds: float, address: str, endpoint: str, body: bytes, *, max_bytes: int, edge: str | None = None
    ) -> bytes:
        """Return a peer's answer if it comes within ``seconds``. The peer's history stays as it is."""
        answer = _Answer(address, max_bytes)
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(address, endpoint, body, edge, answer)
        except TimeoutError:
            raise PeerError(f"{address}: no answer within {seconds:.3g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: the address is invalid
            raise PeerError(f"{address}: {type(error).__name__}: {error}") from None

    def record_acceptance(self, address: str, edge: str | None = None) -> None:
        """Note that an answer was accepted: the peer has a clean slate."""
        self._history(address, edge).record_acceptance()

    def record_refusal(self, address: str, edge: str | None = None) -> None:
        """Note that an answer was refused: the peer rests as if it had failed."""
        self._history(address, edge).record_failure(self.clock())

    def is_resting(self, address: str, edge: str | None = None) -> bool:
        """Whether to leave a peer alone for now. Other edges announced at the same address do not rest with it."""
        history = self.histories.get((address, edge))
        return history is not None and history.is_resting(self.clock())

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def reconnect(self) -> None:
        """Close all connections. A request that is under way is repeated, or its answer resumed, on a new one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _history(self, address: str, edge: str | None) -> PeerHistory:
        history = self.histories.setdefault((address, edge), PeerHistory())
        self.histories.move_to_end((address, edge))
        while len(self.histories) > MAX_HISTORIES:
            self.histories.popitem(last=False)
        return history

    async def _exchange(self, address: str, endpoint: str, body: bytes, edge: str | None, answer: "_Answer") -> bytes:
        """Ask; once more if the connection was closed before an answer came; for the rest if it breaks off."""
        url = f"{self.credentials.scheme}://{address}/peer"
        try:
            await self._ask("POST", f"{url}/{endpoint}", body, edge, answer)
        except aiohttp.ClientConnectorCertificateError:
            raise
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            if not answer.began:  # a connection that was kept open may have been closed by the peer since
                await self._ask("POST", f"{url}/{endpoint}", body, edge, answer)
            elif answer.token:
                rest = f"{url}/again/{answer.token}?from={answer.received}"
                await self._ask("GET", rest, None, edge, answer)
            else:
                raise
        return answer.data.getvalue()

    async def _ask(self, method: str, url: str, body: bytes | None, edge: str | None, answer: "_Answer") -> None:
        headers = {**self.credentials.headers(), **PLAIN}
        # A stream, so that a long body does not hold the event loop. No redirects: a peer could point to a server
        # outside the fleet.
        data, session = None if body is None else io.BytesIO(body), self._open_session()
        try:
            async with session.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
                self._check_identity(answer.address, edge, response)
                await answer.read(response)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if session.closed and task is not None and not task.cancelling():
                # A session that closes cancels what waits for a connection. Nobody cancelled the request itself.
                raise aiohttp.ClientConnectionError("the connections were closed") from None
            raise

    def _check_identity(self, address: str, edge: str | None, response: aiohttp.ClientResponse) -> None:
        """Refuse an answer from another edge, or from one that is revoked or banned.

        Without certificates, nothing proves which edge answers.
        """
        if self.credentials.scheme != "https":
            return
        try:
            identity = self.credentials.identify(getattr(response, "certificate", None), {})
        except CertificateError as error:
            raise PeerError(f"{address}: {error}") from None
        if edge is not None and identity.edge != edge:
            raise PeerError(f"{address}: {identity.edge} answers there, not {edge}")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            context = self.credentials.ssl_context(ssl.Purpose.SERVER_AUTH)
            connector = aiohttp.TCPConnector(ssl=context or False, limit=MAX_CONNECTIONS, limit_per_host=MAX_PER_MEMBER)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(),  # none: a request has one deadline
                auto_decompress=False,
                response_class=_IdentifiedResponse,
            )
        return self._session


@final
class _Answer:
    """What has arrived of an answer, over all attempts. max_bytes: of them together."""

    def __init__(self, address: str, max_bytes: int) -> None:
        self.address, self.max_bytes = address, max_bytes
        self.data = io.BytesIO()
        self.began, self.token = False, ""

    @property
    def received(self) -> int:
        return self.data.tell()

    async def read(self, response: aiohttp.ClientResponse) -> None:
        """Read an answer, or the rest of one; what has arrived stays if the connection breaks."""
        if response.status != 200:
            raise await self._refusal(response)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise PeerError(f"{self.address}: the answer has a content-encoding")
        self._check_size(self.received + (response.content_length or 0))
        self.began, self.token = True, response.headers.get("etag", "")
        pace, before = Pace(asyncio.get_running_loop().time()), self.received
        try:
            while True:
                async with asyncio.timeout_at(pace.due(self.received - before)):
                    part = await response.content.readany()
                if not part:
                    return
                self._check_size(self.received + len(part))
                self.data.write(part)
        except TimeoutError:
            raise PeerError(f"{self.address}: the answer arrives too slowly") from None

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise PeerError(f"{self.address}: the answer has more than {self.max_bytes} bytes, the most expected")

    async def _refusal(self, response: aiohttp.ClientResponse) -> PeerError:
        if self.began:
            return PeerError(f"{self.address}: the answer broke off, and its rest is no longer there", response.status)
        reason = (await response.content.read(MAX_REASON_BYTES)).decode(errors="replace")
        wait = response.headers.get("retry-after", "")
        seconds = float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < 9 else 0.0
        return PeerError(f"{self.address}: {response.status}: {reason}", response.status, seconds)


class _IdentifiedResponse(aiohttp.ClientResponse):
    """A response that keeps the certificate of its sender.

    A short response releases its connection before the caller sees the status, so the certificate is read at the start.
    """

    certificate: bytes | None = None

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        tls = connection.transport.get_extra_info("ssl_object")
        self.certificate = tls.getpeercert(binary_form=True) if tls else None
        return await super().start(connection)
