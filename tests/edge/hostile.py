"""A member of a fleet that has a certificate and bad intentions, and what tests of faults have in common."""

import asyncio
import contextlib
import datetime as dt
import json
import os
import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
import torch
from aiohttp import web
from safetensors.torch import load, save

from alphaedge.edge.directory.gossip import Gossip
from alphaedge.edge.directory.membership import Membership
from alphaedge.edge.store.status import LearnerStatus, PeerStatus, read
from alphaedge.edge.transport.client import PeerClient
from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.authority import Folder
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.errors import PeerError

from .processes import Edge

GONE = 410
Pull = Callable[["Mallory", web.Request, str, bytes], Awaitable[web.StreamResponse]]  # for whom, what it asks


def today() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def trust(folder: Path, edge: str) -> CertificateCredentials:
    """What a member of a fleet shows and believes. folder: of the fleet's certificates."""
    return CertificateCredentials(folder / f"{edge}.pem", folder / f"{edge}.key", folder / "ca.pem", today)


def status(edge: Edge) -> LearnerStatus:
    found = read(edge.folder / "data" / "status.json")
    return found if found is not None else LearnerStatus(edge="", region="", schema="", started=0.0)


def peer(edge: Edge, name: str) -> PeerStatus:
    """Another edge as this one sees it."""
    return status(edge).peers.get(name, PeerStatus())


class Lines:
    """What edges that were started within ``heard`` have written to their log, for as long as they run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Standard error, which processes inherit, is a file meanwhile."""
        before = os.dup(2)
        with self.path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)

    def events(self, **fields: str) -> list[dict[str, Any]]:
        """The events with these fields."""
        text = self.path.read_text()
        found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]
        return [e for e in found if all(e.get(k) == v for k, v in fields.items())]

    def reasons(self, **fields: str) -> list[str]:
        """The reasons in the events with these fields."""
        return [str(e["reason"]) for e in self.events(**fields)]


def forged(answer: bytes, tensors: Callable[[dict[str, torch.Tensor]], None] | None = None, **about: Any) -> bytes:
    """An honest answer with other tensors, or with something else to say about itself."""
    parts = {name: tensor.clone() for name, tensor in load(answer).items()}
    if tensors is not None:
        tensors(parts)
    header = json.loads(answer[8 : 8 + int.from_bytes(answer[:8], "little")])
    told = json.loads(header["__metadata__"]["alphaedge"]) | about
    return save(parts, {"alphaedge": json.dumps(told)})


class Mallory:
    """An edge in this process, known to all others: honest in the directory, and in pulls whatever ``pull`` is.

    certs: the folder of the fleet, which gets one more certificate. near: the edges that it joins. Its honest answer
    to one of them is the model of another.
    """

    def __init__(self, certs: Path, near: list[Edge]) -> None:
        Folder(certs).issue("mallory", "XX", ["127.0.0.1"], now=today(), days=50)
        self.trust, self.near = trust(certs, "mallory"), near
        self.pull: Pull = honest
        self.address = ""
        self.kept: dict[str, bytes] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Something in mallory's own thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> "Mallory":
        self._thread.start()
        self.do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self.client = PeerClient(self.trust, time.monotonic)
        self._gossip = Gossip(
            Membership(
                "mallory",
                self.trust.verify,
                [e.address for e in self.near],
                sign=self.trust.sign_beat,
                genuine=self.trust.genuine,
            ),
            self.client,
            time.time,
            random.Random(0),
        )
        app = web.Application(client_max_size=10**9)
        app.router.add_post("/peer/{what}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.trust.context(ssl.Purpose.CLIENT_AUTH))
        await site.start()
        listening: Any = site._server
        self.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        await self.speak()
        await self._gossip.start()

    async def _stop(self) -> None:
        assert self._gossip._task is not None
        self._gossip._task.cancel()  # without a last word
        await self.client.close()
        await self._runner.cleanup()

    async def speak(self, **changes: Any) -> None:
        """Say something of itself, well signed."""
        about = {"edge": "mallory", "region": "XX", "address": self.address, "schema": status(self.near[0]).schema}
        version = time.time_ns() // 1_000_000
        await self._gossip.speak(
            self.trust.sign(Announcement(**about | {"version": version, "publication": 1} | changes))
        )

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body, what = await request.read(), request.match_info["what"]
        tls: Any = request.transport and request.transport.get_extra_info("ssl_object")
        sender = self.trust.identify(tls.getpeercert(binary_form=True), {})
        if what == "pull" or self.pull in EVERYWHERE:
            return await self.pull(self, request, sender.edge, body)
        if what in self._gossip.handlers():
            return web.Response(body=await self._gossip.handlers()[what](sender, body))
        return web.Response(body=await self.model(body, sender.edge, what))

    async def asks(self, edge: Edge, headers: dict[str, str]) -> str:
        """What an edge answers to a bad request for its model."""
        url = f"https://{edge.address}/peer/pull"
        async with self.client._open().post(url, data=b"x", headers=headers) as response:
            return f"{response.status}: {await response.text()}"

    async def model(self, body: bytes, asker: str, what: str = "pull") -> bytes:
        """The model of another edge than the one that asks, as it answers the same request."""
        other = next(e for e in self.near if e.folder.name != asker)
        try:
            return await self.client.ask(other.address, what, body)
        except PeerError as error:
            if error.status == GONE:
                raise web.HTTPGone(text="say them all") from None
            raise web.HTTPConflict(text=str(error)) from None


async def honest(m: Mallory, _: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    data = await m.model(body, asker)
    m.kept.setdefault(asker, data)
    return web.Response(body=data)


def lie(change: Callable[[bytes], bytes]) -> Pull:
    """An honest answer, but for a change."""

    async def pull(m: Mallory, _: web.Request, asker: str, body: bytes) -> web.StreamResponse:
        return web.Response(body=change(await m.model(body, asker)))

    return pull


async def replay(m: Mallory, _: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    return web.Response(body=m.kept[asker])


async def half(m: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    data = await m.model(body, asker)
    return await _raw(request, b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data) + data[: len(data) // 2])


async def noise(m: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    return await _raw(request, bytes(range(255, 0, -1)) * 20)


async def no_text(m: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """An error page in an encoding that it is not in."""
    return web.Response(status=500, body=b"\xff\xfe\xc1" * 100, headers={"content-type": "text/plain; charset=utf-8"})


async def hang(m: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    await asyncio.sleep(600)
    raise AssertionError("nobody waits so long")


async def endless_error(m: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
    """An error page that goes on for as long as anybody reads it, up to a gigabyte."""
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):
            await response.write(bytes(10**6))
    return response


EVERYWHERE: tuple[Pull, ...] = (no_text,)  # ways to answer everything, the questions of the directory too


async def _raw(request: web.Request, data: bytes) -> NoReturn:
    """Bytes as they are, and no more."""
    assert request.transport is not None
    transport: Any = request.transport
    transport.write(data)
    transport.close()
    raise asyncio.CancelledError


def elsewhere(target: str) -> Pull:
    async def pull(m: Mallory, request: web.Request, asker: str, body: bytes) -> web.StreamResponse:
        return web.Response(status=307, headers={"location": target})

    return pull


@contextlib.contextmanager
def bystander() -> Iterator[tuple[str, list[bytes]]]:
    """A service that is none of an edge's business: its URL, and what was sent to it."""
    heard: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(10)
                    heard.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/secret", heard
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def peak_memory(process: int) -> int:
    """The most bytes of memory that a process has had."""
    text = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM")))


def not_here(reason: str) -> NoReturn:
    """Skip a test that this machine can't run; where everything must be able to run, fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def command(*words: str) -> str:
    """What a command says; an error, with what it says then, if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Path]:
    """A folder with so much room and no more."""
    path.mkdir(parents=True)
    try:
        command("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "alphaedge-test", str(path))
    except OSError as error:
        not_here(f"a small disk can't be mounted here: {error}")
    try:
        yield path
    finally:
        command("umount", "--lazy", str(path))


def news(*records: Any) -> bytes:
    """Records as an edge is told them."""
    return msgspec.msgpack.encode(([*records], ({},)))
