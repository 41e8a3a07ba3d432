"""A port for peers in its own process, and members that talk to it over TLS with certificates."""

import asyncio
import contextlib
import datetime as dt
import gc
import multiprocessing
import random
import ssl
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar, final

import torch

from alphaedge.edge.directory.exchange import Exchange
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.edge.learning.publication import Publication
from alphaedge.edge.peers.key_lists import max_keys
from alphaedge.edge.peers.wire import max_request_bytes, pack_pull, unpack_request
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.transport.server import PeerServer, Route
from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.edge.trust.wire_secrets import WireSecret
from benchmarks.limit_cases.measured import MeasuredProcess, Probe, Work

T = TypeVar("T")
EDGE: Final = "edge"  # the one that is measured
REGION: Final = "EU"
MAX_CONNECTIONS: Final = 128
CAPACITY: Final = 250_000  # rows of the id table
WIDTH: Final = 16
SCHEMA: Final = "s1"
CIPHER: Final = KeyCipher(WireSecret(b"a secret of the fleet", b""), "member", "edge")
ANSWER_BYTES: Final = 32 << 20
HEAD: Final = b"POST /peer/%s HTTP/1.1\r\nhost: edge\r\n"


def announcement(edge: str, version: int, **fields: Any) -> Announcement:
    """What an edge of the benchmark says about itself."""
    return Announcement(
        edge=edge, region=REGION, address="127.0.0.1:1", schema=SCHEMA, version=version, **fields
    )  # fmt: skip


def credentials(folder: Path, edge: str) -> CertificateCredentials:
    """Load the credentials of an edge."""
    files = (folder / f"{edge}.pem", folder / f"{edge}.key", folder / "ca.pem")
    return CertificateCredentials(*files, lambda: dt.datetime.now(dt.UTC))


# -- the server process --


@final
class _Model:
    """A publication with one id table, and the two threads that answer for it, as in a learner process."""

    def __init__(self) -> None:
        self.table = IdRows(torch.randn(1000, WIDTH), [], CAPACITY, width=WIDTH, told=WIDTH)
        self.table.admit(torch.arange(20_000), 0)
        self.table.version[:] = 1
        self.publication = Publication(3, 1000, torch.randn(10_000))
        self._unpacking, self._learner = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    async def pull(self, _: Identity, body: bytes) -> bytes:
        """Answer a pull."""
        loop, most = asyncio.get_running_loop(), max_keys([CAPACITY])
        request, listed = await loop.run_in_executor(
            self._unpacking, lambda: unpack_request(body, SCHEMA, 1, [], lambda _: CIPHER, max_keys=most)
        )
        return await loop.run_in_executor(
            self._learner, lambda: pack_pull(self.publication.answer(request, [self.table]), listed, SCHEMA, "bfloat16")
        )

    async def large(self, _: Identity, __: bytes) -> bytes:
        """Answer with many bytes."""
        return await asyncio.get_running_loop().run_in_executor(self._learner, lambda: b"x" * ANSWER_BYTES)


def _gossip_routes(own: CertificateCredentials) -> dict[str, Route]:
    membership = Membership(EDGE, own, time.time)
    membership.announce(own.sign(announcement(EDGE, 1)), time.monotonic())
    client = PeerClient(own, time.monotonic)
    return Gossip(Exchange(membership), client, time.monotonic, random.Random(0)).routes()


def _serve(folder: Path, control: Connection) -> None:
    """Run the server process: two ports, of which one allows a member few requests."""
    torch.set_num_threads(1)

    async def run() -> None:
        model, probe, own = _Model(), Probe(), credentials(folder, EDGE)
        routes = {"pull": Route(model.pull, max_request_bytes(max_keys([CAPACITY]))), "large": Route(model.large, 100)}
        routes |= _gossip_routes(own)
        servers = [PeerServer(own, max_connections=MAX_CONNECTIONS, requests_per_second=rate) for rate in (1e9, 0.01)]
        for server in servers:
            server.routes.update(routes)
        gc.collect()
        gc.freeze()  # as a learner process does
        control.send([await server.start("127.0.0.1", 0) for server in servers])
        while (command := await asyncio.to_thread(control.recv)) != "stop":
            control.send(probe.answer(command))
        for server in servers:
            await server.stop()

    asyncio.run(run())


@final
class PeerPort:
    """A port for peers in its own process, as a context manager. members: edges that get a certificate."""

    def __init__(self, folder: Path, members: Sequence[str], repeat: int) -> None:
        self.folder = folder
        authority, now = CertificateFolder(folder), dt.datetime.now(dt.UTC)
        authority.init("benchmark", now=now, days=100)
        for edge in (EDGE, *members):
            authority.issue(edge, REGION, ["127.0.0.1"], now=now, days=50)
        self._control, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._child = context.Process(target=_serve, args=(folder, theirs), daemon=True)
        self._child.start()
        self.ports: list[int] = self._control.recv()
        self.process = MeasuredProcess(self._ask, repeat)

    def __enter__(self) -> "PeerPort":
        return self

    def __exit__(self, *_: object) -> None:
        self._control.send("stop")
        self._child.join()

    def _ask(self, command: str) -> float:
        self._control.send(command)
        return float(self._control.recv())


@final
class Member:
    """A member of the fleet that sends what it likes to a port. Close it when done."""

    def __init__(self, port: PeerPort, name: str) -> None:
        own = credentials(port.folder, name)
        self._port, self._context = port, own.ssl_context(ssl.Purpose.SERVER_AUTH)
        self._runner = asyncio.Runner()
        self._client = PeerClient(own, time.monotonic)
        self.address = f"127.0.0.1:{port.ports[0]}"

    def close(self) -> None:
        """Close all connections."""
        self.run(self._client.close())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the event loop of this member."""
        return self._runner.run(work)

    def request(self, endpoint: str, body: bytes) -> bytes:
        """Send an honest request over a connection that is kept; return the answer."""
        return self.run(self._client.request(self.address, endpoint, body, max_bytes=10**9, edge=EDGE))

    def say(self, data: bytes, *, port: int = 0) -> int:
        """Send bytes over a new connection; return the status of the answer."""

        async def send() -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port.ports[port], ssl=self._context)
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()
            return int(head.split()[1])

        return self.run(send())

    def refused(self, status: int, data: bytes, *, port: int = 0) -> Work:
        """Return what sends bytes that must be answered with ``status``."""

        def send() -> None:
            found = self.say(data, port=port)
            assert found == status, f"{found}, not {status}"

        return send

    def without_certificate(self) -> None:
        """Shake hands as a stranger would."""

        async def connect() -> None:
            context = ssl.create_default_context(cafile=str(self._port.folder / "ca.pem"))
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port.ports[0], ssl=context)
                await reader.readexactly(1)
                writer.close()

        self.run(connect())

    def without_tls(self) -> None:
        """Connect, say something else, and leave."""

        async def connect() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port.ports[0])
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(OSError):
                await reader.read()
            writer.close()

        self.run(connect())


def post(endpoint: bytes, body: bytes, *lines: bytes) -> bytes:
    """The bytes of a request. lines: more headers."""
    headers = b"".join(line + b"\r\n" for line in (*lines, b"content-length: %d" % len(body)))
    return HEAD % endpoint + headers + b"\r\n" + body
