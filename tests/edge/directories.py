"""Fleets in one process, each edge with its directory: over real ports, or at a real server. For tests."""

import asyncio
import contextlib
import datetime as dt
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import nats.errors
from nats.aio.client import Client

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Delta, Digest, Membership
from alphaedge.edge.directory.nats import NatsDirectory, cancelled
from alphaedge.edge.directory.nats_server_config import INBOX, key
from alphaedge.edge.directory.protocol import Directory
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import PeerServer
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.authority import Folder
from alphaedge.edge.trust.credentials import CertificateCredentials

from .nats_server import SERVER, NatsServer

DOWN = 1.5  # seconds without a sign of life
NAMES = ("berlin", "bonn", "north.shop.", "liar")


def today() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def issue_all(path: Path) -> Path:
    """The certificates of a fleet and its server, and of another fleet that has the same names."""
    for fleet in ("ours", "theirs"):
        folder = Folder(path / fleet)
        folder.init("shops", now=today(), days=100)
        for edge in (*NAMES, "new", SERVER):
            folder.issue(edge, "DE", ["127.0.0.1"], now=today(), days=50)
    return path


def trust(certs: Path, edge: str, fleet: str = "ours", authority: str = "ours") -> CertificateCredentials:
    files = (certs / fleet / f"{edge}.pem", certs / fleet / f"{edge}.key", certs / authority / "ca.pem")
    return CertificateCredentials(*files, today)


def about(edge: str, version: int, **more: Any) -> Announcement:
    known: dict[str, Any] = {"region": "DE", "address": "127.0.0.1:1", "schema": "s"} | more
    return Announcement(edge=edge, version=version, **known)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


async def until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


class Fleet(Protocol):
    """Edges of one fleet, each with its directory, in this process."""

    edges: dict[str, Directory]

    async def join(self, edge: str, version: int = 1) -> Directory: ...
    async def speak(self, edge: str, version: int, **more: Any) -> None: ...
    async def crash(self, edge: str) -> None: ...
    async def whisper(self, by: str, record: SignedAnnouncement) -> None:
        """Another record, from an edge that does not use its directory."""
        ...

    async def close(self) -> None: ...


class GossipFleet:
    """Over real ports, with certificates on both ends; the first edge is the seed of the others."""

    def __init__(self, certs: Path) -> None:
        self.certs, self.seeds, self.edges = certs, list[str](), dict[str, Directory]()
        self.ports: dict[str, tuple[str, PeerServer, PeerClient]] = {}

    async def join(self, edge: str, version: int = 1) -> Directory:
        own = trust(self.certs, edge)
        server, client = PeerServer(own), PeerClient(own, time.monotonic)
        address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
        book = Membership(edge, own.verify, self.seeds, DOWN, sign=own.sign_beat, genuine=own.genuine)
        made = Gossip(book, client, time.time, random.Random(0))
        server.handlers.update(made.handlers())
        self.ports[edge], self.edges[edge] = (address, server, client), made
        await self.speak(edge, version)
        await made.start()
        self.seeds = self.seeds or [address]
        return made

    async def speak(self, edge: str, version: int, **more: Any) -> None:
        said = about(edge, version, address=self.ports[edge][0], **more)
        await self.edges[edge].speak(trust(self.certs, edge).sign(said))

    async def crash(self, edge: str) -> None:
        made = self.edges.pop(edge)
        assert isinstance(made, Gossip)
        assert made._task is not None
        made._task.cancel()
        await self._unplug(edge)

    async def _unplug(self, edge: str) -> None:
        _, server, client = self.ports.pop(edge)
        await client.close()
        await server.stop()

    async def whisper(self, by: str, record: SignedAnnouncement) -> None:
        client = PeerClient(trust(self.certs, by), time.monotonic)
        for address, _, _ in self.ports.values():
            await client.ask(address, "news", msgspec.msgpack.encode(Delta([record], Digest({}))))
        await client.close()

    async def close(self) -> None:
        for edge, made in list(self.edges.items()):
            await made.close()
            await self._unplug(edge)


class NatsFleet:
    """At a real server, that knows each edge by its certificate."""

    def __init__(self, certs: Path, servers: Iterable[NatsServer]) -> None:
        self.certs, self.edges = certs, dict[str, Directory]()
        self.config = NatsConfig(servers=tuple(server.url for server in servers), down_after=DOWN)

    async def join(self, edge: str, version: int = 1) -> Directory:
        self.edges[edge] = made = NatsDirectory(self.config, edge, trust(self.certs, edge))
        await self.speak(edge, version)
        await made.start()
        return made

    async def speak(self, edge: str, version: int, **more: Any) -> None:
        await self.edges[edge].speak(trust(self.certs, edge).sign(about(edge, version, **more)))

    async def crash(self, edge: str) -> None:
        made = self.edges.pop(edge)
        assert isinstance(made, NatsDirectory)
        assert made._task is not None
        await cancelled(made._task)

    async def whisper(self, by: str, record: SignedAnnouncement) -> None:
        await self.write(by, by, msgspec.msgpack.encode(record))

    async def write(self, by: str, whose: str, value: bytes, seconds: float = 5) -> None:
        async with connection(self.config, trust(self.certs, by), by) as client:
            bucket = await client.jetstream(timeout=seconds).key_value(self.config.bucket)
            await bucket.put(key(whose), value)

    async def close(self) -> None:
        await asyncio.gather(*(made.close() for made in self.edges.values()))


@contextlib.asynccontextmanager
async def connection(config: NatsConfig, own: CertificateCredentials, edge: str) -> AsyncIterator[Client]:
    """An edge's own connection, to do with as it likes."""
    client, complaints = Client(), list[Exception]()

    async def note(error: Exception) -> None:
        complaints.append(error)

    try:
        context = own.context(ssl.Purpose.SERVER_AUTH)
        await client.connect(
            list(config.servers), tls=context, inbox_prefix=INBOX + key(edge), allow_reconnect=False, error_cb=note
        )
        yield client
    except nats.errors.TimeoutError:
        raise PermissionError(str(complaints)) from None
    finally:
        await client.close()


def views(fleet: Fleet, of: Iterable[str] = ()) -> dict[str, dict[str, int]]:
    """Whom each edge sees, with the version of what it says."""
    return {
        edge: {other: one.version for other, one in fleet.edges[edge].alive().items()} for edge in of or fleet.edges
    }


async def agreed(fleet: Fleet, versions: Mapping[str, int]) -> None:
    """Wait until all that are there see just these."""
    try:
        await until(lambda: all(seen == dict(versions) for seen in views(fleet).values()), "one view")
    except AssertionError:
        raise AssertionError(f"not {dict(versions)} but {views(fleet)}") from None


def changed(certs: Path) -> SignedAnnouncement:
    """A record whose text is not the one that was signed."""
    true = trust(certs, "liar").sign(about("liar", 2))
    return msgspec.structs.replace(true, about=msgspec.msgpack.encode(about("liar", 10)))
