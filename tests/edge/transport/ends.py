"""Both ends of a connection between edges, for tests: paris answers, berlin asks."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from alphaedge.edge.transport.client import DEADLINE_SECONDS, PeerClient
from alphaedge.edge.transport.server import PeerServer, Route
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.errors import BadPeerRequest, ModelRefused, PeerForbidden

from ..credentials import load_credentials

MODEL = bytes(range(256)) * 5000
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Paris:
    """Answers pulls and notes who asked."""

    def __init__(self) -> None:
        self.pulls: list[str] = []
        self.fails: BaseException | None = None

    async def pull(self, sender: Identity, request: bytes) -> bytes:
        self.pulls.append(f"{sender.edge} in {sender.region} pulls {request!r}")
        if self.fails is not None:
            raise self.fails
        if request == b"nonsense":
            raise BadPeerRequest("not a pull in MessagePack")
        if request == b"forbidden":
            raise PeerForbidden("deny from=paris to=berlin")
        if request == b"refused":
            raise ModelRefused("another schema")
        return MODEL


def credentials(certs: Path, edge: str, fleet: str = "ours", authority: str = "ours") -> CertificateCredentials:
    return load_credentials(certs / fleet, edge, authority=certs / authority)


@asynccontextmanager
async def serving(certs: Path, edge: str = "paris", **which: str) -> AsyncIterator[tuple[str, Paris]]:
    """Serve as an edge: the address, and what answers there. which: fleet and authority of its credentials."""
    async with limited(PeerServer(credentials(certs, edge, **which))) as served:
        yield served


@asynccontextmanager
async def limited(server: PeerServer, max_bytes: int = 1000) -> AsyncIterator[tuple[str, Paris]]:
    """Serve with limits of its own: the address, and what answers there. max_bytes: of a request."""
    paris = Paris()
    server.routes["pull"] = Route(paris.pull, max_bytes)
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}", paris
    finally:
        await server.stop()


async def ask(client: PeerClient, address: str, body: bytes = b"x", endpoint: str = "pull", **changes: Any) -> bytes:
    """Ask paris for its model."""
    wanted: dict[str, Any] = {"max_bytes": len(MODEL), "edge": "paris", **changes}
    return await client.request(address, endpoint, body, **wanted)


@asynccontextmanager
async def asking(
    certs: Path, edge: str = "berlin", deadline: float = DEADLINE_SECONDS, **which: str
) -> AsyncIterator[PeerClient]:
    """Ask as an edge. Its clock stands still, so that a rest does not end during a test."""
    client = PeerClient(credentials(certs, edge, **which), clock=lambda: 100.0, deadline_seconds=deadline)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def odd_server(certs: Path, handle: Handler) -> AsyncIterator[str]:
    """Serve as paris, in any way that ``handle`` likes; yields the address."""
    context = credentials(certs, "paris").ssl_context(ssl.Purpose.CLIENT_AUTH)
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@asynccontextmanager
async def connected(
    certs: Path, address: str, edge: str = "berlin"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect as an edge that sends whatever it likes."""
    host, _, port = address.rpartition(":")
    context = credentials(certs, edge).ssl_context(ssl.Purpose.SERVER_AUTH)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=host)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def say(certs: Path, address: str, data: bytes, edge: str = "berlin") -> tuple[bytes, dict[bytes, bytes]]:
    """Send bytes as an edge; return the status line and the headers of the answer."""
    async with connected(certs, address, edge) as (reader, writer):
        writer.write(data)
        return await read_head(reader)


async def read_head(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes]]:
    """Read the head of an answer: the status line and the headers."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    return first, dict(line.split(b": ", 1) for line in lines if line)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one HTTP request; return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    await reader.readexactly(int(lengths[0]) if lengths else 0)
    return head
