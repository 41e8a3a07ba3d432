"""A member of a fleet with a valid certificate and bad intentions, and what tests of faults share."""

import asyncio
import contextlib
import json
import os
import random
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
import torch
from aiohttp import web
from safetensors.torch import load, save

from alphaedge.core.compression import dense_bytes
from alphaedge.edge.directory.exchange import Delta, Digest, Exchange
from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.peers.number_format import unpack_dense
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, read_learner_status
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.trust.announcements import Announcement, SignedAnnouncement
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.errors import PeerError

from .credentials import load_credentials, utc_now
from .processes import Edge

GONE = 410
Pull = Callable[["Mallory", web.Request, str, bytes], Awaitable[web.StreamResponse]]
"""Answers a pull. Gets mallory, the HTTP request, the name of the asking edge and the body."""


def status(edge: Edge) -> LearnerStatus:
    current = read_learner_status(edge.folder / "data" / "status.json")
    return current if current is not None else LearnerStatus(edge="", region="", schema="", started=0.0)


def peer(edge: Edge, name: str) -> PeerStatus:
    """Return the status of a peer as an edge sees it."""
    return status(edge).peers.get(name, PeerStatus())


def alive_peers(edge: Edge) -> set[str]:
    """Return the peers that an edge sees as alive."""
    return {name for name, one in status(edge).peers.items() if one.alive}


class EdgeLog:
    """The log of edges that were started within ``capture``, for as long as they run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Redirect standard error, which processes inherit, to a file."""
        before = os.dup(2)
        with self.path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)

    def events(self, **fields: str) -> list[dict[str, Any]]:
        """Return the events with these fields."""
        text = self.path.read_text()
        events = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]
        return [event for event in events if all(event.get(name) == value for name, value in fields.items())]

    def reasons(self, **fields: str) -> list[str]:
        """Return the reasons in the events with these fields."""
        return [str(event["reason"]) for event in self.events(**fields)]


def forge(answer: bytes, change: Callable[[dict[str, torch.Tensor]], None] | None = None, **metadata: Any) -> bytes:
    """Change the tensors or the metadata of an honest answer. The dense part is unpacked, whatever its precision."""
    tensors = {name: tensor.clone() for name, tensor in load(answer).items()}
    if "dense" in tensors and tensors["dense"].dtype == torch.uint8:
        packed = len(zlib.decompress(tensors["dense"].numpy().tobytes()))
        size = next(size for size in range(packed + 1) if dense_bytes(size, 0, "int8") == packed)
        tensors["dense"] = unpack_dense(tensors["dense"], size, torch.float32)
    if change is not None:
        change(tensors)
    header = json.loads(answer[8 : 8 + int.from_bytes(answer[:8], "little")])
    honest_metadata = json.loads(header["__metadata__"]["alphaedge"])
    return save(tensors, {"alphaedge": json.dumps(honest_metadata | metadata)})


def encode_delta(*announcements: SignedAnnouncement) -> bytes:
    """Encode announcements as gossip carries them."""
    return msgspec.msgpack.encode(Delta(list(announcements), Digest({})))


class Mallory:
    """An edge in this process that is honest in the directory and answers pulls with ``pull``.

    certs: the fleet's folder of certificates, which gets one more. edges: the edges that it joins. Its honest answer to
    one of them is the model of another.
    """

    def __init__(self, certs: Path, edges: list[Edge]) -> None:
        CertificateFolder(certs).issue("mallory", "XX", ["127.0.0.1"], now=utc_now(), days=50)
        self.credentials, self.edges = load_credentials(certs, "mallory"), edges
        self.pull: Pull = honest
        self.address = ""
        self.first_answers: dict[str, bytes] = {}  # by the asking edge
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in mallory's own thread and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> "Mallory":
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self.client = PeerClient(self.credentials, time.monotonic)
        exchange = Exchange(Membership("mallory", self.credentials, time.time), [edge.address for edge in self.edges])
        self._gossip = Gossip(exchange, self.client, time.monotonic, random.Random(0))
        app = web.Application(client_max_size=10**9)
        app.router.add_post("/peer/{endpoint}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        context = self.credentials.ssl_context(ssl.Purpose.CLIENT_AUTH)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server: Any = site._server
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await self.announce()
        await self._gossip.start()

    async def _stop(self) -> None:
        assert self._gossip._task is not None
        self._gossip._task.cancel()  # without a last round
        await self.client.close()
        await self._runner.cleanup()

    async def announce(self, **changes: Any) -> None:
        """Announce itself with a valid signature."""
        schema, version = status(self.edges[0]).schema, time.time_ns() // 1_000_000
        fields: dict[str, Any] = {
            "edge": "mallory",
            "region": "XX",
            "address": self.address,
            "schema": schema,
            "version": version,
        }
        await self._gossip.announce(self.credentials.sign(Announcement(**fields | {"publication": 1} | changes)))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body, endpoint = await request.read(), request.match_info["endpoint"]
        tls: Any = request.transport and request.transport.get_extra_info("ssl_object")
        sender = self.credentials.identify(tls.getpeercert(binary_form=True), {})
        if endpoint == "pull" or self.pull in EVERYWHERE:
            return await self.pull(self, request, sender.edge, body)
        if endpoint in self._gossip.routes():
            return web.Response(body=await self._gossip.routes()[endpoint].handler(sender, body))
        return web.Response(body=await self.honest_answer(body, sender.edge, endpoint))

    async def send_bad_pull(self, edge: Edge, headers: dict[str, str]) -> str:
        """Return an edge's answer to a bad request for its model."""
        url = f"https://{edge.address}/peer/pull"
        async with self.client._open_session().post(url, data=b"x", headers=headers) as response:
            return f"{response.status}: {await response.text()}"

    async def honest_answer(self, body: bytes, asker: str, endpoint: str = "pull") -> bytes:
        """Return what another edge than the asking one answers to the same request."""
        other = next(edge for edge in self.edges if edge.folder.name != asker)
        try:
            return await self.client.request(other.address, endpoint, body, max_bytes=10**8)
        except PeerError as error:
            if error.status == GONE:
                raise web.HTTPGone(text=str(error)) from None
            raise web.HTTPConflict(text=str(error)) from None


async def honest(mallory: Mallory, _: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    answer = await mallory.honest_answer(body, asker)
    mallory.first_answers.setdefault(asker, answer)
    return web.Response(body=answer)


def lie(change: Callable[[bytes], bytes]) -> Pull:
    """Answer honestly, but for a change."""

    async def pull(mallory: Mallory, _: web.Request, asker: str, body: bytes) -> web.StreamResponse:
        return web.Response(body=change(await mallory.honest_answer(body, asker)))

    return pull


async def replay(mallory: Mallory, _: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """Send the first answer again."""
    return web.Response(body=mallory.first_answers[asker])


async def half(mallory: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """Send half of an answer."""
    data = await mallory.honest_answer(body, asker)
    header = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data)
    return await _send_raw(request, header + data[: len(data) // 2])


async def noise(mallory: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    return await _send_raw(request, bytes(range(255, 0, -1)) * 20)


async def no_text(mallory: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """Send an error page that is not in the encoding that it claims."""
    return web.Response(status=500, body=b"\xff\xfe\xc1" * 100, headers={"content-type": "text/plain; charset=utf-8"})


async def hang(mallory: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """Send nothing until the client gives up."""
    await asyncio.sleep(600)
    raise AssertionError("no client waits so long")


async def endless_error(mallory: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """Send an error page of up to a gigabyte, for as long as the client reads it."""
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):
            await response.write(bytes(10**6))
    return response


EVERYWHERE: tuple[Pull, ...] = (no_text,)  # these answer every endpoint, those of the directory too


async def _send_raw(request: web.Request, data: bytes) -> NoReturn:
    """Send bytes as they are, and close the connection."""
    transport: Any = request.transport
    assert transport is not None
    transport.write(data)
    transport.close()
    raise asyncio.CancelledError


def redirect(target: str) -> Pull:
    async def pull(mallory: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
        return web.Response(status=307, headers={"location": target})

    return pull


@contextlib.contextmanager
def bystander() -> Iterator[tuple[str, list[bytes]]]:
    """A service outside the fleet: its URL, and what was sent to it."""
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(10)
                    received.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/secret", received
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def peak_memory(process: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    text = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM")))


def skip_or_fail(reason: str) -> NoReturn:
    """Skip a test that this machine can't run; fail in CI, where every test must run."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run_command(*words: str) -> str:
    """Return the output of a command; raise ``OSError`` with its errors if it fails."""
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if result.returncode:
        raise OSError(f"{' '.join(words)}: {result.stderr.strip()}")
    return result.stdout


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of limited size."""
    path.mkdir(parents=True)
    try:
        run_command("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "alphaedge-test", str(path))
    except OSError as error:
        skip_or_fail(f"can't mount a small disk: {error}")
    try:
        yield path
    finally:
        run_command("umount", "--lazy", str(path))
