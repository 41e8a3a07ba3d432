"""Fleets in one process for tests: each edge has its directory, over real ports or at a real nats-server."""

import asyncio
import contextlib
import datetime as dt
import random
import shutil
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from nats.aio.client import Client

from alphaedge.edge.config import NatsConfig
from alphaedge.edge.directory.beacons import Beacon
from alphaedge.edge.directory.exchange import Delta, Digest, Exchange
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.directory.nats import NatsDirectory, cancel_task
from alphaedge.edge.directory.nats_server_config import INBOX_PREFIX, bucket_key
from alphaedge.edge.directory.protocol import Directory
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import PeerServer
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import KeyPair, load_certificate
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.edge.trust.incarnation import Incarnation
from alphaedge.edge.trust.revocations import (
    RevocationList,
    RevokedCertificate,
    SignedRevocations,
    sign_revocations,
)

from .credentials import load_credentials, utc_now
from .nats_server import SERVER, NatsServer

T = TypeVar("T")
DOWN_AFTER_SECONDS = 1.5
EDGES = ("berlin", "bonn", "north.shop.", "liar")
LIMIT_SECONDS = 120.0  # only a test that hangs reaches it, however busy the machine is


def issue_certificates(path: Path) -> Path:
    """Issue the certificates of a fleet and its server, and of another fleet with the same names."""
    for fleet in ("ours", "theirs"):
        folder = CertificateFolder(path / fleet)
        folder.init("shops", now=utc_now(), days=100)
        for edge in (*EDGES, "new", SERVER):
            folder.issue(edge, "DE", ["127.0.0.1"], now=utc_now(), days=50)
    return path


def our_credentials(certs: Path, edge: str) -> CertificateCredentials:
    return load_credentials(certs / "ours", edge)


def foreign_credentials(certs: Path, edge: str) -> CertificateCredentials:
    """Credentials of the other fleet, which trust our authority."""
    return load_credentials(certs / "theirs", edge, authority=certs / "ours")


def announcement(edge: str, version: int, **fields: Any) -> Announcement:
    defaults: dict[str, Any] = {"region": "DE", "address": "127.0.0.1:1", "schema": "s"}
    return Announcement(edge=edge, version=version, **defaults | fields)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run an asynchronous test; fail if it hangs."""

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_SECONDS) as limit:
            await test
        assert not limit.expired(), "the test hangs"  # it may have swallowed the cancellation

    asyncio.run(limited())


async def until(condition: Callable[[], bool], what: str, seconds: float = LIMIT_SECONDS / 2) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


class Clock:
    """The clock of a fleet. It stands still, so that no edge counts as down for being slow, until ``run``."""

    def __init__(self) -> None:
        self._stopped: float | None = time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() if self._stopped is None else self._stopped

    def run(self) -> None:
        self._stopped = None


class Members:
    """The members of a fleet: credentials of each, its incarnations, and how far its clock is off.

    bans: what ``ban`` of a policy returns, by the edge that bans.
    """

    def __init__(self, certs: Path) -> None:
        self._certs = certs
        self.credentials: dict[str, CertificateCredentials] = {}
        self.incarnations: dict[str, Incarnation] = {}
        self.offsets: dict[str, float] = {}
        self.bans: dict[str, set[str]] = {}
        self.folders: dict[str, Path] = {}  # of edges whose certificates are elsewhere

    def start(self, edge: str) -> CertificateCredentials:
        """Return the credentials of an edge that starts, in its next incarnation."""
        if edge in self.incarnations:
            self.incarnations[edge].rise()
        incarnation = self.incarnations.setdefault(edge, Incarnation())
        self.credentials[edge] = load_credentials(
            self.folders.get(edge, self._certs / "ours"),
            edge,
            now=lambda: utc_now() + dt.timedelta(seconds=self.offsets.get(edge, 0.0)),
            incarnation=incarnation,
            banned=lambda member: "a rule" if member.edge in self.bans.get(edge, ()) else None,
        )
        return self.credentials[edge]

    def get(self, edge: str) -> CertificateCredentials:
        """Return the credentials of an edge, whether or not it runs."""
        return self.credentials.get(edge) or self.start(edge)

    def wall(self, edge: str) -> float:
        """Return the time by the clock of an edge."""
        return time.time() + self.offsets.get(edge, 0.0)


def revoke(certs: Path, number: int, *edges: str) -> SignedRevocations:
    """Return a list of the fleet's authority that revokes the first certificates of some edges."""
    ours = certs / "ours"
    authority = KeyPair.load((ours / "ca.pem").read_bytes(), (ours / "ca.key").read_bytes())
    certificates = [load_certificate((ours / f"{edge}.pem").read_bytes()) for edge in edges]
    revoked = tuple(RevokedCertificate(f"{one.serial_number:x}") for one in certificates)
    return sign_revocations(RevocationList(number, revoked), authority)


def certify_anew(certs: Path, edge: str, folder: Path) -> Path:
    """Issue another certificate for an edge, in a folder of its own, which is returned."""
    shutil.copytree(certs / "ours", folder)
    CertificateFolder(folder).renew([edge], now=utc_now(), days=50)
    return folder


def beacon(own: CertificateCredentials, signed: SignedAnnouncement) -> bytes:
    """Return what an edge writes to its key for an announcement."""
    return msgspec.msgpack.encode(Beacon(signed, own.sign_heartbeat(1, 0), own.revocations.number))


class Fleet(Protocol):
    """Edges of one fleet in this process, each with its directory."""

    clock: Clock
    edges: dict[str, Directory]
    members: Members

    async def join(self, edge: str, version: int = 1) -> Directory: ...
    async def announce(self, edge: str, version: int, **fields: Any) -> None: ...
    async def crash(self, edge: str) -> None: ...
    async def inject(self, sender: str, signed: SignedAnnouncement) -> None:
        """Send an announcement to all edges, without the sender's directory."""
        ...

    async def close(self) -> None: ...


class GossipFleet:
    """Edges that gossip over real ports, with certificates on both ends. The first one is the seed of the others."""

    def __init__(self, certs: Path) -> None:
        self.clock, self.edges = Clock(), dict[str, Directory]()
        self.ports: dict[str, tuple[str, PeerServer, PeerClient]] = {}
        self.members, self._seeds = Members(certs), list[str]()

    async def join(self, edge: str, version: int = 1) -> Directory:
        own = self.members.start(edge)
        server, client = PeerServer(own), PeerClient(own, time.monotonic)
        address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
        membership = Membership(edge, own, lambda: self.members.wall(edge), DOWN_AFTER_SECONDS)
        directory = Gossip(Exchange(membership, self._seeds), client, self.clock, random.Random(0))
        server.routes.update(directory.routes())
        self.ports[edge], self.edges[edge] = (address, server, client), directory
        await self.announce(edge, version)
        await directory.start()
        self._seeds = self._seeds or [address]
        return directory

    async def announce(self, edge: str, version: int, **fields: Any) -> None:
        new = announcement(edge, version, address=self.ports[edge][0], **fields)
        await self.edges[edge].announce(self.members.credentials[edge].sign(new))

    async def crash(self, edge: str) -> None:
        directory = self.edges.pop(edge)
        assert isinstance(directory, Gossip)
        assert directory._task is not None
        directory._task.cancel()
        await self._disconnect(edge)

    async def _disconnect(self, edge: str) -> None:
        _, server, client = self.ports.pop(edge)
        await client.close()
        await server.stop()

    async def inject(self, sender: str, signed: SignedAnnouncement) -> None:
        client = PeerClient(self.members.get(sender), time.monotonic)
        for address, _, _ in self.ports.values():
            await client.request(address, "delta", msgspec.msgpack.encode(Delta([signed], Digest({}))), max_bytes=0)
        await client.close()

    async def close(self) -> None:
        for edge, directory in list(self.edges.items()):
            await directory.close()
            await self._disconnect(edge)


class NatsFleet:
    """Edges at a real nats-server, which knows each by its certificate."""

    def __init__(self, certs: Path, servers: Iterable[NatsServer]) -> None:
        self.clock, self.edges = Clock(), dict[str, Directory]()
        self.config = NatsConfig(servers=tuple(server.url for server in servers), down_after_seconds=DOWN_AFTER_SECONDS)
        self.members = Members(certs)

    async def join(self, edge: str, version: int = 1) -> Directory:
        own = self.members.start(edge)
        directory = NatsDirectory(self.config, edge, own, self.clock, lambda: self.members.wall(edge))
        self.edges[edge] = directory
        await self.announce(edge, version)
        await directory.start()
        return directory

    async def announce(self, edge: str, version: int, **fields: Any) -> None:
        new = announcement(edge, version, **fields)
        await self.edges[edge].announce(self.members.credentials[edge].sign(new))

    async def crash(self, edge: str) -> None:
        directory = self.edges.pop(edge)
        assert isinstance(directory, NatsDirectory)
        assert directory._task is not None
        await cancel_task(directory._task)

    async def inject(self, sender: str, signed: SignedAnnouncement) -> None:
        await self.write(sender, sender, beacon(self.members.get(sender), signed))

    async def write(self, sender: str, edge: str, value: bytes) -> None:
        """Write the key of an edge over a connection of the sender."""
        async with connect(self.config, self.members.get(sender), sender) as link:
            bucket = await link.permitted(link.stream.key_value(self.config.bucket))
            await link.permitted(bucket.put(bucket_key(edge), value))

    async def close(self) -> None:
        await asyncio.gather(*(directory.close() for directory in self.edges.values()))


@dataclass
class Link:
    """A connection to nats-server. refusals: what the server did not permit."""

    client: Client
    refusals: asyncio.Queue[Exception]

    @property
    def stream(self) -> Any:
        return self.client.jetstream(timeout=LIMIT_SECONDS)

    async def permitted(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call, or raise ``PermissionError``: the server does not answer what it refuses."""
        answer, refusal = asyncio.create_task(call), asyncio.create_task(self.refusals.get())
        done, _ = await asyncio.wait({answer, refusal}, return_when=asyncio.FIRST_COMPLETED)
        if answer in done:
            refusal.cancel()
            return answer.result()
        answer.cancel()
        raise PermissionError(str(refusal.result()))


@contextlib.asynccontextmanager
async def connect(config: NatsConfig, own: CertificateCredentials, inbox: str) -> AsyncIterator[Link]:
    """Connect without a directory. inbox: the edge to whose inbox answers go."""
    link = Link(Client(), asyncio.Queue())
    try:
        await link.client.connect(
            list(config.servers),
            tls=own.ssl_context(ssl.Purpose.SERVER_AUTH),
            inbox_prefix=INBOX_PREFIX + bucket_key(inbox),
            allow_reconnect=False,
            max_reconnect_attempts=1,
            connect_timeout=int(LIMIT_SECONDS / 4),
            error_cb=link.refusals.put,
        )
        yield link
    finally:
        await link.client.close()


def views(fleet: Fleet, of: Iterable[str] = ()) -> dict[str, dict[str, int]]:
    """Return the edges that each edge sees as alive, with the version of their announcement in its incarnation."""
    return {
        edge: {other: seen.version for other, seen in fleet.edges[edge].alive().items()} for edge in of or fleet.edges
    }


async def until_all_see(fleet: Fleet, versions: Mapping[str, int]) -> None:
    """Wait until every edge sees exactly these edges with these versions."""
    try:
        await until(lambda: all(view == dict(versions) for view in views(fleet).values()), "one view")
    except AssertionError:
        raise AssertionError(f"not {dict(versions)} but {views(fleet)}") from None


def tampered(certs: Path) -> SignedAnnouncement:
    """An announcement of liar whose payload is not the one that was signed."""
    signed = our_credentials(certs, "liar").sign(announcement("liar", 2))
    newer = announcement("liar", 10, incarnation=9)
    return msgspec.structs.replace(signed, payload=msgspec.msgpack.encode(newer))
