"""Edges talk to edges: HTTPS with certificates on both ends. Who shows none of the fleet does not get in.

Three things can be asked of another edge: what it has heard of the fleet (gossip), to hear what one has heard (news),
and its model (pull). An answer that breaks off is asked for again from where it broke off. Every answer has a deadline
that follows how fast the peer was before; one that fails is left alone for a while, and longer each time.
"""

import asyncio
import datetime as dt
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, final

import aiohttp
import msgspec
from aiohttp import web
from cryptography import x509

from alphaedge.edge.certs import CertificateError, Identity, check
from alphaedge.edge.gossip import Digest, News
from alphaedge.edge.wire import Refused
from alphaedge.errors import AlphaEdgeError

T = TypeVar("T")
SMALL, LARGE = 16_000_000, 1_000_000_000  # largest bodies, bytes: of gossip, of models
KEPT_ANSWERS: Final = 32  # models that may still be asked for again
SHORTEST, LONGEST = 2.0, 60.0  # seconds for an answer
FIRST_REST, LONGEST_REST = 1.0, 300.0  # seconds that a failing peer is left alone
CHUNK: Final = 1 << 16


class PeerError(AlphaEdgeError):
    """Another edge could not be reached, or refused; says which and why."""


class Forbidden(AlphaEdgeError):
    """A peer asks for what it may not have; says by which rule."""


class Answers(Protocol):
    """What an edge answers others. ``Forbidden`` becomes 403, ``Refused`` 409."""

    async def gossip(self, sender: Identity, digest: Digest) -> News:
        """What the sender of a digest lacks."""
        ...

    async def news(self, sender: Identity, news: News) -> None:
        """Hear what the sender has heard."""
        ...

    async def pull(self, sender: Identity, request: bytes) -> bytes:
        """The own model, as far as it is asked for."""
        ...


@final
@dataclass(frozen=True)
class Credentials:
    """An edge's certificate, key and authority, as files and as what they say."""

    certificate: str
    key: str
    authority: str
    now: Callable[[], dt.datetime]

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """For one end of connections: both ends must show a certificate of the fleet."""
        made = ssl.create_default_context(purpose, cafile=self.authority)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_cert_chain(self.certificate, self.key)
        return made

    def identify(self, der: bytes | None) -> Identity:
        """Who is at the other end."""
        if der is None:
            raise CertificateError("the other end shows no certificate")
        with open(self.authority, "rb") as file:
            authority = x509.load_pem_x509_certificate(file.read())
        return check(x509.load_der_x509_certificate(der), authority, self.now())


@final
class PeerServer:
    """The port for other edges."""

    def __init__(self, answers: Answers, credentials: Credentials) -> None:
        self._answers, self._credentials = answers, credentials
        self._sent: dict[str, tuple[str, bytes]] = {}  # token -> for whom, answer
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port."""
        app = web.Application(client_max_size=LARGE)
        app.router.add_post("/peer/gossip", self._gossip)
        app.router.add_post("/peer/news", self._news)
        app.router.add_post("/peer/pull", self._pull)
        app.router.add_get("/peer/pull/{token}", self._again)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=self._credentials.context(ssl.Purpose.CLIENT_AUTH))
        await site.start()
        listening: Any = site._server
        return int(listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _sender(self, request: web.Request) -> Identity:
        connection: Any = request.transport and request.transport.get_extra_info("ssl_object")
        try:
            return self._credentials.identify(connection.getpeercert(binary_form=True) if connection else None)
        except CertificateError as error:
            raise web.HTTPForbidden(text=str(error)) from None

    async def _gossip(self, request: web.Request) -> web.Response:
        sender, digest = self._sender(request), await _decoded(request, Digest)
        news = await self._answers.gossip(sender, digest)
        return web.Response(body=msgspec.msgpack.encode(news))

    async def _news(self, request: web.Request) -> web.Response:
        sender, news = self._sender(request), await _decoded(request, News)
        await self._answers.news(sender, news)
        return web.Response()

    async def _pull(self, request: web.Request) -> web.Response:
        sender = self._sender(request)
        try:
            data = await self._answers.pull(sender, await request.read())
        except Forbidden as error:
            raise web.HTTPForbidden(text=str(error)) from None
        except Refused as error:
            raise web.HTTPConflict(text=str(error)) from None
        token = hashlib.blake2b(data + sender.edge.encode(), digest_size=16).hexdigest()
        self._sent[token] = (sender.edge, data)
        while len(self._sent) > KEPT_ANSWERS:
            del self._sent[next(iter(self._sent))]
        return web.Response(body=data, headers={"etag": token})

    async def _again(self, request: web.Request) -> web.Response:
        """The rest of an answer that broke off."""
        sender = self._sender(request)
        to, data = self._sent.get(request.match_info["token"], ("", b""))
        start = request.query.get("from", "")
        if to != sender.edge or not start.isdigit() or int(start) > len(data):
            raise web.HTTPNotFound(text="there is no such answer any more")
        return web.Response(body=data[int(start) :])


async def _decoded(request: web.Request, kind: type[T]) -> T:
    if (request.content_length or 0) > SMALL:
        raise web.HTTPRequestEntityTooLarge(SMALL, request.content_length or 0)
    try:
        return msgspec.msgpack.decode(await request.read(), type=kind)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"it can't be read ({error})") from None


@final
@dataclass
class Manner:
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

    credentials: Credentials
    clock: Callable[[], float]
    manners: dict[str, Manner] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)  # bytes, by address
    _session: aiohttp.ClientSession | None = None

    async def gossip(self, address: str, digest: Digest) -> News:
        """What an edge has heard."""
        data = await self._asked(address, lambda: self._post(address, "gossip", msgspec.msgpack.encode(digest), SMALL))
        try:
            return msgspec.msgpack.decode(data, type=News)
        except msgspec.MsgspecError as error:
            raise PeerError(f"{address}: its news can't be read ({error})") from None

    async def news(self, address: str, news: News) -> None:
        """Tell an edge what it lacks."""
        await self._asked(address, lambda: self._post(address, "news", msgspec.msgpack.encode(news), SMALL))

    async def pull(self, address: str, edge: str, request: bytes) -> bytes:
        """The model of an edge, if it is that edge which answers there."""
        return await self._asked(address, lambda: self._post(address, "pull", request, LARGE, edge))

    def resting(self, address: str) -> bool:
        """Whether a peer is left alone for now."""
        return self.manners.setdefault(address, Manner()).rest_until > self.clock()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _asked(self, address: str, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        """An answer within the peer's deadline, with one retry if the connection fails."""
        manner = self.manners.setdefault(address, Manner())
        began = self.clock()
        try:
            async with asyncio.timeout(manner.deadline()):
                try:
                    found = await ask()
                except aiohttp.ClientConnectorCertificateError:
                    raise
                except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                    found = await ask()
        except PeerError:
            manner.failed(self.clock())
            raise
        except TimeoutError:
            manner.failed(self.clock())
            raise PeerError(f"{address}: no answer in {manner.deadline():.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            manner.failed(self.clock())
            raise PeerError(f"{address}: {type(error).__name__}: {error}") from None
        manner.answered(self.clock() - began)
        self.received[address] = self.received.get(address, 0) + len(found)
        return found

    async def _post(self, address: str, what: str, body: bytes, most: int, edge: str | None = None) -> bytes:
        url = f"https://{address}/peer/{what}"
        async with self._open().post(url, data=body) as response:
            if edge is not None:
                self._identified(address, edge, response)
            if response.status != 200:
                raise PeerError(f"{address}: {response.status}: {(await response.text())[:300]}")
            data = bytearray()
            token = response.headers.get("etag", "")
            try:
                await _read(response, data, most)
                return bytes(data)
            except aiohttp.ClientPayloadError:
                if not token:
                    raise
        rest = f"{url}/{token}?from={len(data)}"
        async with self._open().get(rest) as response:
            if response.status != 200:
                raise PeerError(f"{address}: its answer broke off, and the rest is gone")
            await _read(response, data, most)
            return bytes(data)

    def _identified(self, address: str, edge: str, response: aiohttp.ClientResponse) -> None:
        try:
            found = self.credentials.identify(getattr(response, "certificate", None))
        except CertificateError as error:
            raise PeerError(f"{address}: {error}") from None
        if found.edge != edge:
            raise PeerError(f"{address}: {found.edge} answers there, not {edge}")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.credentials.context(ssl.Purpose.SERVER_AUTH))
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


async def _read(response: aiohttp.ClientResponse, data: bytearray, most: int) -> None:
    async for part in response.content.iter_chunked(CHUNK):
        data += part
        if len(data) > most:
            raise PeerError(f"{response.url.host}: an answer of more than {most} bytes")
