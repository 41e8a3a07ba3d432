"""What other members and strangers can cost an edge over the port for peers.

A server process answers pulls as an edge does, over TLS with certificates. A member sends it what it must refuse, the
largest requests that it accepts, and floods of connections; another server drips, and sends too much. CPU is that of
the server process. How long the event loop is held is the time between two turns of it, less the time that the process
waited for a core, so that a busy machine does not count.
"""

import asyncio
import contextlib
import datetime as dt
import gzip
import multiprocessing
import os
import socket
import ssl
import tempfile
import threading
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
import numpy as np
import torch

from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.edge.learning.publication import Publication, PullRequest
from alphaedge.edge.peers.key_lists import max_keys, pack_keys
from alphaedge.edge.peers.wire import max_request_bytes, pack_pull, pack_request, unpack_request
from alphaedge.edge.transport.client import DEADLINE_SECONDS, PeerClient
from alphaedge.edge.transport.server import PeerServer, Route
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.errors import PeerError

REFUSED_CPU_MS: Final = 10.0
ACCEPTED_CPU_MS: Final = 100.0
KEYS_CPU_MS_PER_MB: Final = 150.0  # of keys, 8 bytes each
ANSWER_CPU_MS_PER_MB: Final = 15.0
MEMORY_RATIO: Final = 2.0
HOLD_MS: Final = 50.0
MAX_CONNECTIONS: Final = 128
CAPACITY: Final = 250_000  # rows of the id table
WIDTH: Final = 16
SCHEMA: Final = "s1"
ANSWER_BYTES: Final = 32 << 20
HEAD: Final = b"POST /peer/%s HTTP/1.1\r\nhost: edge\r\n"


@final
class Row(NamedTuple):
    """One measured limit: it holds if the value is at most the limit."""

    name: str
    unit: str
    value: float
    limit: float


# -- the server process --


class Held:
    """The longest time that one turn of the event loop took."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")

    async def watch(self) -> None:
        """Note every turn, until cancelled."""
        before = self._now()
        while True:
            await asyncio.sleep(0)
            now = self._now()
            self.longest, before = max(self.longest, now - before), now

    def _now(self) -> float:
        """Seconds, without those that this thread waited for a core."""
        waited = int(self._schedule.read_text().split()[1])
        return time.monotonic() - waited / 1e9


class _Model:
    """A publication with one id table, and the two threads that answer for it, as in a learner process."""

    def __init__(self) -> None:
        self.table = IdRows(torch.randn(1000, WIDTH), [], CAPACITY)
        self.table.admit(torch.arange(20_000), 0)
        self.table.version[:] = 1
        self.publication = Publication(3, 1000, torch.randn(10_000))
        self._unpacking, self._learner = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    async def pull(self, _: Identity, body: bytes) -> bytes:
        """Answer a pull."""
        loop, most = asyncio.get_running_loop(), max_keys([CAPACITY])
        request, listed = await loop.run_in_executor(
            self._unpacking, lambda: unpack_request(body, SCHEMA, 1, [], max_keys=most)
        )
        return await loop.run_in_executor(
            self._learner, lambda: pack_pull(self.publication.answer(request, [self.table]), listed, SCHEMA)
        )

    async def large(self, _: Identity, __: bytes) -> bytes:
        """Answer with many bytes."""
        return await asyncio.get_running_loop().run_in_executor(self._learner, lambda: b"x" * ANSWER_BYTES)


def _serve(folder: Path, control: Connection) -> None:
    """Run the server process: two ports, of which one allows a member few requests."""
    torch.set_num_threads(1)

    async def run() -> None:
        model, held = _Model(), Held()
        routes = {"pull": Route(model.pull, max_request_bytes(max_keys([CAPACITY]))), "large": Route(model.large, 100)}
        servers = [
            PeerServer(_credentials(folder, "edge"), max_connections=MAX_CONNECTIONS, requests_per_second=rate)
            for rate in (1e9, 0.01)
        ]
        for server in servers:
            server.routes.update(routes)
        control.send([await server.start("127.0.0.1", 0) for server in servers])
        watching: asyncio.Task[None] | None = None
        while (command := await asyncio.to_thread(control.recv)) != "stop":
            match command:
                case "cpu":
                    control.send(time.process_time())
                case "watch":
                    held.longest, watching = 0.0, asyncio.create_task(held.watch())
                    control.send(None)
                case "held":
                    assert watching is not None
                    watching.cancel()
                    control.send(held.longest)
                case "reset":
                    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
                    control.send(memory("VmRSS"))
                case "peak":
                    control.send(memory("VmHWM"))
                case "descriptors":
                    control.send(len(os.listdir("/proc/self/fd")))
        for server in servers:
            await server.stop()

    asyncio.run(run())


def memory(name: str) -> int:
    """The memory of this process in bytes, by its name in /proc/self/status."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))


# -- the member that attacks --


def _credentials(folder: Path, edge: str) -> CertificateCredentials:
    files = (folder / f"{edge}.pem", folder / f"{edge}.key", folder / "ca.pem")
    return CertificateCredentials(*files, lambda: dt.datetime.now(dt.UTC))


@final
class _Attacker:
    """A member, and what it asks the server process about itself. quick: fewer repetitions."""

    def __init__(self, folder: Path, control: Connection, ports: list[int], *, quick: bool) -> None:
        self._control, self._ports, self._repeat = control, ports, 5 if quick else 20
        own = _credentials(folder, "member")
        self._context, self._folder = own.ssl_context(ssl.Purpose.SERVER_AUTH), folder
        self.client = PeerClient(own, time.monotonic)
        self.address = f"127.0.0.1:{ports[0]}"

    def tell(self, command: str) -> Any:
        """Give the server process a command, and return its answer."""
        self._control.send(command)
        return self._control.recv()

    async def cpu_ms(self, work: Callable[[], Awaitable[object]], repeat: int | None = None) -> float:
        """CPU of the server process for one call of ``work``."""
        await work()
        before, count = self.tell("cpu"), repeat or self._repeat
        for _ in range(count):
            await work()
        return 1000 * float(self.tell("cpu") - before) / count

    async def say(self, data: bytes, *, port: int = 0) -> bytes:
        """Send bytes over a new connection; return the status of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[port], ssl=self._context)
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        return head.split()[1]

    def refused(self, status: bytes, data: bytes, *, port: int = 0) -> Callable[[], Awaitable[None]]:
        """A request that must be answered with ``status``."""

        async def send() -> None:
            found = await self.say(data, port=port)
            assert found == status, f"{found!r}, not {status!r}"

        return send

    async def pull(self, request: bytes, endpoint: str = "pull") -> int:
        """Send an honest request; return the size of the answer."""
        return len(await self.client.request(self.address, endpoint, request, max_bytes=10**9, edge="edge"))

    async def without_certificate(self) -> None:
        """Shake hands as a stranger would."""
        context = ssl.create_default_context(cafile=str(self._folder / "ca.pem"))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[0], ssl=context)
            await reader.readexactly(1)
            writer.close()

    async def without_tls(self) -> None:
        """Connect, say something else, and leave."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[0])
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()


def _post(endpoint: bytes, body: bytes, *lines: bytes) -> bytes:
    headers = b"".join(line + b"\r\n" for line in (*lines, b"content-length: %d" % len(body)))
    return HEAD % endpoint + headers + b"\r\n" + body


def _many_keys() -> bytes:
    """A request of 156 KB that names 20 million keys, one after the other."""
    count = 20_000_000
    packed = count.to_bytes(4, "little") + zlib.compress(b"\1" * count + bytes(7 * count))
    none = pack_keys(torch.empty(0, dtype=torch.long))
    return msgspec.msgpack.encode([SCHEMA, 0, b"", [packed], [none]])


def _large_request(count: int) -> bytes:
    """A request with so many keys."""
    keys = np.unique(np.random.default_rng(0).integers(2**48, size=count))
    none = torch.empty(0, dtype=torch.long)
    return pack_request(PullRequest(0, (torch.from_numpy(keys),), (none,)), SCHEMA, None)[0]


def _refusals() -> dict[str, tuple[bytes, bytes, int]]:
    """What must be refused: the status, the bytes, and at which of the two ports."""
    bomb = gzip.compress(bytes(10**8))
    return {
        "a request that is too large": (b"413", HEAD % b"pull" + b"content-length: 500000000\r\n\r\n", 0),
        "a gzip bomb": (b"415", _post(b"pull", bomb, b"content-encoding: gzip"), 0),
        "20 million keys in 156 KB": (b"413", _post(b"pull", _many_keys()), 0),
        "garbage": (b"409", _post(b"pull", bytes(range(256)) * 400), 0),
        "too many requests": (b"429", _post(b"pull", b"x"), 1),
        "a head that is too large": (b"431", HEAD % b"pull" + b"x: x\r\n" * 500 + b"\r\n", 0),
        "an unknown path": (b"404", _post(b"money", b"x"), 0),
    }


async def _measure_server(attacker: _Attacker) -> AsyncIterator[Row]:
    small = pack_request(PullRequest(0, (torch.tensor([5]),), (torch.tensor([5]),)), SCHEMA, None)[0]
    largest, megabytes = _large_request(max_keys([CAPACITY])), 8 * max_keys([CAPACITY]) / 1e6
    await attacker.pull(_large_request(50_000))
    cap = max_request_bytes(max_keys([CAPACITY]))  # first of all, as freed memory may stay with the process
    for name, request, endpoint, size in (
        ("the largest request", largest, "pull", cap),
        ("an answer", b"x", "large", ANSWER_BYTES),
    ):
        before = attacker.tell("reset")
        await attacker.pull(request, endpoint)
        ratio = (attacker.tell("peak") - before) / size
        yield Row(f"memory: {name}", "times the cap", ratio, MEMORY_RATIO)

    refusals = {name: attacker.refused(s, data, port=port) for name, (s, data, port) in _refusals().items()}
    with contextlib.suppress(AssertionError):
        await refusals["too many requests"]()  # the first one is answered
    for name, send in refusals.items():
        yield Row(f"refused: {name}", "ms of CPU", await attacker.cpu_ms(send), REFUSED_CPU_MS)
    yield Row("stranger: no TLS", "ms of CPU", await attacker.cpu_ms(attacker.without_tls), REFUSED_CPU_MS)
    yield Row(
        "stranger: no certificate", "ms of CPU", await attacker.cpu_ms(attacker.without_certificate), REFUSED_CPU_MS
    )

    base = await attacker.cpu_ms(lambda: attacker.pull(small))
    yield Row("accepted: a pull of one row", "ms of CPU", base, ACCEPTED_CPU_MS)
    cost = (await attacker.cpu_ms(lambda: attacker.pull(largest), 2) - base) / megabytes
    yield Row("accepted: keys of a request", "ms of CPU per MB", cost, KEYS_CPU_MS_PER_MB)
    cost = (await attacker.cpu_ms(lambda: attacker.pull(b"x", "large"), 2) - base) / (ANSWER_BYTES / 1e6)
    yield Row("accepted: an answer", "ms of CPU per MB", cost, ANSWER_CPU_MS_PER_MB)

    works: dict[str, Callable[[], Awaitable[object]]] = {
        "the largest request": lambda: attacker.pull(largest),
        "an answer of 32 MB": lambda: attacker.pull(b"x", "large"),
        **{
            name: refusals[name] for name in ("a request that is too large", "a gzip bomb", "20 million keys in 156 KB")
        },
    }
    for name, work in works.items():
        holds = []
        for _ in range(3):  # the shortest of three: a stall of the machine is no hold
            attacker.tell("watch")
            await work()
            holds.append(attacker.tell("held"))
        yield Row(f"event loop: {name}", "ms held", 1000 * min(holds), HOLD_MS)
    async for row in _flood(attacker, small):
        yield row


async def _flood(attacker: _Attacker, request: bytes) -> AsyncIterator[Row]:
    """Open 500 connections that never start TLS, and ask for something meanwhile."""
    await attacker.pull(request)
    before, failed, most, opened = attacker.tell("descriptors"), 0, 0, []
    for number in range(500):
        one = socket.create_connection(("127.0.0.1", int(attacker.address.rpartition(":")[2])))
        opened.append(one)
        if number % 50 == 0:
            most = max(most, attacker.tell("descriptors"))
            try:
                await attacker.pull(request)
            except PeerError:
                failed += 1
    most = max(most, attacker.tell("descriptors"))
    for one in opened:
        one.close()
    yield Row("flood of 500 connections: descriptors", "open", most - before, MAX_CONNECTIONS)
    yield Row("flood of 500 connections: pulls that fail", "of 10", failed, 0)


async def _measure_client(folder: Path) -> AsyncIterator[Row]:
    """What a peer that drips, and one that sends too much, cost the edge that pulls from it."""
    answering: list[asyncio.Task[Any] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 990000000\r\n\r\n")
        part, pause = (b"x", 0.2) if b"drip" in head else (bytes(1 << 16), 0.0)
        with contextlib.suppress(OSError):
            while not writer.transport.is_closing():
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)

    context = _credentials(folder, "edge").ssl_context(ssl.Purpose.CLIENT_AUTH)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = PeerClient(_credentials(folder, "member"), time.monotonic)
    began = time.process_time()
    with contextlib.suppress(PeerError):
        await client.request(address, "flood", b"x", max_bytes=10**7)
    yield Row("pull: CPU for an answer that is too large", "ms", 1000 * (time.process_time() - began), 100.0)
    began = time.monotonic()
    with contextlib.suppress(PeerError):
        await client.request(address, "drip", b"x", max_bytes=10**9)
    yield Row("pull: time for a peer that drips", "s", time.monotonic() - began, DEADLINE_SECONDS)
    await client.close()
    await asyncio.gather(*filter(None, answering))
    server.close()


def measure(quick: bool = False) -> list[Row]:
    """Measure all of it. quick: with few repetitions."""

    async def run(folder: Path) -> list[Row]:
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("spawn").Process(target=_serve, args=(folder, theirs), daemon=True)
        child.start()
        attacker = _Attacker(folder, ours, await asyncio.to_thread(ours.recv), quick=quick)
        try:
            rows = [row async for row in _measure_server(attacker)]
            return rows + [row async for row in _measure_client(folder)]
        finally:
            await attacker.client.close()
            ours.send("stop")
            child.join()

    with tempfile.TemporaryDirectory() as name:
        authority, now = CertificateFolder(Path(name)), dt.datetime.now(dt.UTC)
        authority.init("benchmark", now=now, days=100)
        for edge in ("edge", "member"):
            authority.issue(edge, "EU", ["127.0.0.1"], now=now, days=50)
        return asyncio.run(run(Path(name)))
