"""The port for other edges: HTTPS with certificates on both ends. Only edges of the fleet can connect.

A table maps endpoints to handlers: the model, and what the directory needs. What a member may ask for is limited before
anything is read or computed: the rate of its requests, their size by endpoint, and how long they take to arrive. A
large answer is kept for a while, so that a client whose connection broke can ask for the rest of it.
"""

import asyncio
import io
import math
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, final

from aiohttp import web

from alphaedge.edge.log import exception, warn
from alphaedge.edge.transport.descriptors import connections_within, raise_descriptor_limit
from alphaedge.edge.transport.kept_answers import KeptAnswers
from alphaedge.edge.transport.limit_hits import UNIDENTIFIED, Limit, LimitHits
from alphaedge.edge.transport.listener import Listener, PeerConnection
from alphaedge.edge.transport.pace import Pace
from alphaedge.edge.transport.work_budget import WorkBudget
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.errors import (
    AlphaEdgeError,
    BadPeerRequest,
    CertificateError,
    KeyListForgotten,
    ModelRefused,
    PeerForbidden,
    PeerRequestTooLarge,
    SecretUnknown,
)
from alphaedge.rate_limit import RateLimiter

BURST_SECONDS: Final = 2.0  # of requests that a member may send at once after a pause
BYTES_PER_TOKEN: Final = 1 << 20  # so much of a request or an answer counts as a request of its own
REQUEST_SECONDS: Final = 20.0  # for a whole request to arrive
CHUNK_BYTES: Final = 1 << 16
LINGER_SECONDS: Final = 1.0  # for a client to see why its request is refused while it is still sending
MAX_REASON_LENGTH: Final = 300

Handler = Callable[[Identity, bytes], Awaitable[bytes]]
"""Returns the answer to a request of an edge. Errors of ``STATUS_BY_ERROR`` have a status of their own."""

Work = Callable[[str], float]
"""Returns the seconds of CPU that the requests of a member have taken since the start."""

STATUS_BY_ERROR: Final[Mapping[type[AlphaEdgeError], int]] = {
    PeerForbidden: 403,
    ModelRefused: 409,
    KeyListForgotten: 410,
    SecretUnknown: 412,
    BadPeerRequest: 400,
    PeerRequestTooLarge: 413,
}
STATUS_BY_LIMIT: Final[Mapping[Limit, int]] = {
    "rate": 429,
    "memory": 429,
    "cpu": 429,
    "size": 413,
    "encoding": 415,
    "head": 431,
    "slow_request": 408,
}


@final
class Route(NamedTuple):
    """What answers an endpoint. max_bytes: of a request; a larger one is refused unread.

    work: what answering a member has taken, if that has to be limited.
    """

    handler: Handler
    max_bytes: int
    work: Work | None = None


class _Refused(Exception):
    def __init__(self, status: int, reason: str, limit: Limit | None = None, retry_after: float = 0.0) -> None:
        self.status, self.reason, self.limit, self.retry_after = status, reason, limit, retry_after


def _over(limit: Limit, reason: str, retry_after: float = 0.0) -> _Refused:
    return _Refused(STATUS_BY_LIMIT[limit], reason, limit, retry_after)


@final
class PeerServer:
    """Answers the requests of other edges. routes: by endpoint; may be added to after the start.

    max_connections: open at once, fewer if the process may not open so many. requests_per_second: of one member.
    hits: which limits members have run into.
    """

    def __init__(
        self, credentials: Credentials, *, max_connections: int = 256, requests_per_second: float = 100.0
    ) -> None:
        self._credentials, self._max_connections = credentials, max_connections
        self._rates = RateLimiter[str](requests_per_second, requests_per_second * BURST_SECONDS)
        self._arriving: Counter[str] = Counter()  # bytes of requests that are read or answered, by member
        self._work = WorkBudget()
        self._worked: dict[tuple[Work, str], float] = {}  # what was charged so far, by member
        self._kept = KeptAnswers()
        self._listener: Listener | None = None
        self.routes: dict[str, Route] = {}
        self.hits = LimitHits()

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port, which the system chooses if ``port`` is 0."""
        context = self._credentials.ssl_context(ssl.Purpose.CLIENT_AUTH)
        connections = connections_within(self._max_connections, raise_descriptor_limit())
        self._listener = Listener(web.Server(self._handle), context, self._name, self._note, connections)
        return await self._listener.start(host, port)

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._listener is not None:
            await self._listener.stop()

    def disconnect(self, member: str) -> None:
        """Close all connections of a member, at once."""
        if self._listener is not None:
            self._listener.disconnect(member)

    def disconnect_refused(self) -> None:
        """Close the connections of members that have been revoked or banned, at once."""
        if self._listener is not None:
            self._listener.disconnect_refused()

    def _name(self, certificate: bytes | None) -> str | None:
        try:
            return self._credentials.identify(certificate, {}).edge
        except CertificateError:
            return None

    def _note(self, member: str, limit: Limit) -> None:
        if self.hits.note(member, limit, asyncio.get_running_loop().time()):
            warn("peer_limit_hit", member=member, limit=limit)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection, member = _connection(request), UNIDENTIFIED
        assert self._listener is not None
        table = self._listener.table
        table.set_busy(connection, busy=True)
        try:
            sender = self._identify(request)
            member = sender.edge
            self._listener.identified(connection, member)
            return await self._answer(request, sender)
        except _Refused as refusal:
            return await self._refuse(request, member, refusal)
        finally:
            table.set_busy(connection, busy=False)

    def _identify(self, request: web.BaseRequest) -> Identity:
        tls: Any = request.transport and request.transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls else None
        try:
            return self._credentials.identify(certificate, request.headers)
        except CertificateError as error:
            raise _Refused(403, str(error)) from None

    async def _answer(self, request: web.BaseRequest, sender: Identity) -> web.StreamResponse:
        wait = self._rates.take(sender.edge, asyncio.get_running_loop().time())
        if wait:
            raise _over("rate", "too many requests", wait)
        if request.headers.get("content-encoding", "identity") != "identity":
            raise _over("encoding", "send the body without a content-encoding")
        match request.method, request.path.split("/"):
            case "GET", ["", "peer", "again", token]:
                rest = self._kept.rest(sender.edge, token, request.query.get("from", ""))
                if rest is None:
                    raise _Refused(404, "no such answer is kept; ask for it again")
                return await self._send(request, sender.edge, rest, None)
            case "POST", ["", "peer", endpoint] if endpoint in self.routes:
                answer = await self._run(request, sender, endpoint)
                return await self._send(request, sender.edge, memoryview(answer), self._kept.keep(sender.edge, answer))
            case _, ["", "peer", endpoint]:
                reason = f"no endpoint {endpoint[: MAX_REASON_LENGTH // 2]!r}; allowed: " + ", ".join(self.routes)
                raise _Refused(404, reason)
            case _:
                raise _Refused(404, "allowed: POST /peer/ENDPOINT, GET /peer/again/TOKEN?from=BYTES")

    async def _run(self, request: web.BaseRequest, sender: Identity, endpoint: str) -> bytes:
        """Read a request and have it answered."""
        route, length = self.routes[endpoint], request.content_length
        if length is None:
            raise _Refused(411, "send a content-length")
        if length > route.max_bytes:
            raise _over("size", f"{length} bytes; {endpoint} takes at most {route.max_bytes}")
        now = asyncio.get_running_loop().time()
        if route.work is not None and (wait := self._work.wait(sender.edge, now)):
            raise _over("cpu", "this edge has worked too long for you", wait)
        if self._arriving[sender.edge] + length > max(one.max_bytes for one in self.routes.values()):
            raise _over("memory", "too many large requests at once", 1.0)
        self._arriving[sender.edge] += length
        try:
            await self._spend(sender.edge, length)
            body = await _read(request, length)
            return await route.handler(sender, body)
        except AlphaEdgeError as error:
            too_large = isinstance(error, PeerRequestTooLarge)
            raise _Refused(
                STATUS_BY_ERROR.get(type(error), 500), str(error), "entries" if too_large else None
            ) from None
        except (MemoryError, OSError) as error:
            if isinstance(error, ConnectionError):
                raise
            warn("peer_request_failed", member=sender.edge, endpoint=endpoint, reason=repr(error))
            raise _Refused(503, "no room for this request") from None
        except _Refused:
            raise
        except Exception:
            exception("peer_request_failed", member=sender.edge, endpoint=endpoint)
            raise _Refused(500, "this edge failed") from None
        finally:
            if route.work is not None:
                self._charge(sender.edge, route.work)
            self._arriving[sender.edge] -= length
            if not self._arriving[sender.edge]:
                del self._arriving[sender.edge]

    def _charge(self, member: str, work: Work) -> None:
        """Charge a member for the work since the last time."""
        before, after = self._worked.get((work, member), 0.0), work(member)
        self._worked[work, member] = after
        self._work.spend(member, after - before, asyncio.get_running_loop().time())

    async def _spend(self, member: str, count: int) -> None:
        """Wait until a member may have so many bytes read or sent."""
        while count >= BYTES_PER_TOKEN:
            wait = self._rates.take(member, asyncio.get_running_loop().time(), count / BYTES_PER_TOKEN)
            if not wait:
                break
            await asyncio.sleep(wait)

    async def _send(
        self, request: web.BaseRequest, member: str, answer: memoryview, token: str | None
    ) -> web.StreamResponse:
        """Send an answer in parts, with turns for others in between, for as long as the client keeps reading."""
        await self._spend(member, len(answer))
        response = web.StreamResponse(headers={"etag": token} if token else {})
        response.content_length = len(answer)
        pace = Pace(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout_at(pace.due(0)):
                await response.prepare(request)
            for start in range(0, len(answer), CHUNK_BYTES):
                async with asyncio.timeout_at(pace.due(start)):
                    await response.write(answer[start : start + CHUNK_BYTES])
                    await asyncio.sleep(0)
            async with asyncio.timeout_at(pace.due(len(answer))):
                await response.write_eof()
        except TimeoutError:
            self._note(member, "slow_reader")
            _connection(request).abort()
        return response

    async def _refuse(self, request: web.BaseRequest, member: str, refusal: _Refused) -> web.StreamResponse:
        """Say why a request is refused. The rest of one that is still being sent is not read."""
        if refusal.limit is not None:
            self._note(member, refusal.limit)
        headers = {"retry-after": str(math.ceil(refusal.retry_after))} if refusal.retry_after else {}
        text = refusal.reason[:MAX_REASON_LENGTH] or HTTPStatus(refusal.status).phrase
        response = web.Response(status=refusal.status, text=text, headers=headers)
        connection, unread = _connection(request), not request.content.is_eof()
        if unread:
            response.force_close()
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await response.prepare(request)
                await response.write_eof()
                while unread and connection.connected:
                    await asyncio.sleep(LINGER_SECONDS / 10)
        except TimeoutError:
            connection.abort()
        return response


def _connection(request: web.BaseRequest) -> PeerConnection:
    connection = request.protocol
    assert isinstance(connection, PeerConnection)
    return connection


async def _read(request: web.BaseRequest, length: int) -> bytes:
    """Read the body, which must arrive fast enough."""
    began = asyncio.get_running_loop().time()
    pace, body = Pace(began), io.BytesIO()
    try:
        while body.tell() < length:
            async with asyncio.timeout_at(min(began + REQUEST_SECONDS, pace.due(body.tell()))):
                part = await request.content.readany()
            if not part:
                raise _Refused(400, f"{body.tell()} bytes of {length}")
            body.write(part)
    except TimeoutError:
        raise _over("slow_request", "the request arrives too slowly") from None
    return body.getvalue()
