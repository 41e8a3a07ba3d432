"""Both ends of a connection between edges, for tests: paris answers, berlin asks."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import PeerServer
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

    async def pull(self, sender: Identity, request: bytes) -> bytes:
        self.pulls.append(f"{sender.edge} in {sender.region} pulls {request!r}")
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
    paris = Paris()
    server = PeerServer(credentials(certs, edge, **which))
    server.handlers["pull"] = paris.pull
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}", paris
    finally:
        await server.stop()


@asynccontextmanager
async def asking(certs: Path, edge: str = "berlin", **which: str) -> AsyncIterator[PeerClient]:
    """Ask as an edge. Its clock stands still, so that a rest does not end during a test."""
    client = PeerClient(credentials(certs, edge, **which), clock=lambda: 100.0)
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


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one HTTP request; return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    await reader.readexactly(int(lengths[0]) if lengths else 0)
    return head
