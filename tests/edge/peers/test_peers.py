"""Edges on real connections: who gets in, what breaks off, who hangs, who lies about itself."""

import asyncio
import contextlib
import datetime as dt
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from alphaedge.edge.transport import client as peer_client
from alphaedge.edge.transport.client import PeerClient, PeerHistory
from alphaedge.edge.transport.server import PeerServer
from alphaedge.edge.trust.authority import Folder
from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import CertificateCredentials
from alphaedge.errors import BadPeerRequest, ModelRefused, PeerError, PeerForbidden

DAY = dt.timedelta(days=1)
MODEL = bytes(range(256)) * 5000


def today() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet's folder, another fleet's, and some certificates that must not be used."""
    path = tmp_path_factory.mktemp("certs")
    for fleet in ("ours", "theirs"):
        folder = Folder(path / fleet)
        folder.init("shops", now=today() - 300 * DAY, days=1000)
        for edge in ("berlin", "paris"):
            folder.issue(edge, "EU", ["127.0.0.1"], now=today() - DAY, days=90)
    Folder(path / "ours").issue("old", "EU", ["127.0.0.1"], now=today() - 200 * DAY, days=90)
    Folder(path / "ours").issue("elsewhere", "EU", ["10.9.9.9"], now=today(), days=90)
    return path


def trust(certs: Path, edge: str, fleet: str = "ours", authority: str = "ours") -> CertificateCredentials:
    files = (certs / fleet / f"{edge}.pem", certs / fleet / f"{edge}.key", certs / authority / "ca.pem")
    return CertificateCredentials(*files, today)


class Paris:
    """What the asked edge answers; notes who asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def pull(self, sender: Identity, request: bytes) -> bytes:
        self.asked.append(f"{sender.edge} in {sender.region} pulls {request!r}")
        if request == b"nonsense":
            raise BadPeerRequest("it can't be read")
        if request == b"forbidden":
            raise PeerForbidden("deny from=paris to=berlin")
        if request == b"refused":
            raise ModelRefused("another schema")
        return MODEL


@asynccontextmanager
async def serving(certs: Path, edge: str = "paris", **which: str) -> Any:
    answers = Paris()
    server = PeerServer(trust(certs, edge, **which))
    server.handlers["pull"] = answers.pull
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}", answers
    finally:
        await server.stop()


@asynccontextmanager
async def asking(certs: Path, edge: str = "berlin", **which: str) -> Any:
    client = PeerClient(trust(certs, edge, **which), time.monotonic)
    try:
        yield client
    finally:
        await client.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_edges_know_whom_they_talk_to(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, paris), asking(certs) as client:
            assert await client.ask(address, "pull", b"x", edge="paris") == MODEL
            assert paris.asked == ["berlin in EU pulls b'x'"]
            with pytest.raises(PeerError, match="404: allowed: pull"):
                await client.ask(address, "money", b"x", edge="paris")

    run(test())


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        ({}, {"fleet": "theirs"}, "(?i)certificate|alert|ssl|connect"),  # a foreign certificate asks
        ({"fleet": "theirs", "authority": "theirs"}, {}, "CERTIFICATE_VERIFY_FAILED|self.signed|certificate"),
        ({"edge": "old"}, {}, "expired"),
        ({}, {"edge": "old"}, "(?i)certificate|alert|ssl|connect"),
        ({"edge": "elsewhere"}, {}, "IP address mismatch"),
    ],
)
def test_nobody_else_gets_in(certs: Path, server: dict[str, str], client: dict[str, str], reason: str) -> None:
    async def test() -> None:
        async with serving(certs, **server) as (address, answers), asking(certs, **client) as me:
            with pytest.raises(PeerError, match=reason):
                await me.ask(address, "pull", b"x", edge="paris")
            assert answers.asked == []

    run(test())


def test_who_shows_no_certificate_does_not_get_in(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, answers):
            trusting = ssl.create_default_context(cafile=str(certs / "ours" / "ca.pem"))
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
                with pytest.raises(aiohttp.ClientError):
                    async with session.post(f"https://{address}/peer/pull", data=b"x") as response:
                        await response.read()
            assert answers.asked == []

    run(test())


def test_an_edge_that_answers_for_another_is_not_believed(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs, "berlin") as (address, _), asking(certs) as me:
            with pytest.raises(PeerError, match="berlin answers there, not paris"):
                await me.ask(address, "pull", b"x", edge="paris")

    run(test())


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (b"forbidden", "403: deny from=paris to=berlin"),
        (b"refused", "409: another schema"),
        (b"nonsense", "400: it can't"),
    ],
)
def test_refusals_arrive_with_their_reason(certs: Path, request_: bytes, words: str) -> None:
    async def test() -> None:
        async with serving(certs) as (address, _), asking(certs) as me:
            with pytest.raises(PeerError, match=words):
                await me.ask(address, "pull", request_, edge="paris")
            assert me.resting(address, "paris")

    run(test())


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def odd_server(certs: Path, handle: Handler) -> Any:
    """A member of the fleet that does as it likes."""
    context = trust(certs, "paris").context(ssl.Purpose.CLIENT_AUTH)
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def one_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
    await reader.readexactly(length)
    return head


def test_an_answer_that_breaks_off_is_asked_for_again_from_there(certs: Path) -> None:
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await one_request(reader)
        asked.append(head.split(b"\r\n")[0])
        if head.startswith(b"POST"):
            writer.write(b"HTTP/1.1 200 OK\r\netag: abc\r\ncontent-length: %d\r\n\r\n" % len(MODEL) + MODEL[:100_000])
        else:
            rest = MODEL[int(head.split(b"from=")[1].split()[0]) :]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(rest) + rest)
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as me:
            assert await me.ask(address, "pull", b"x", edge="paris") == MODEL
            assert len(asked) == 2
            assert asked[1].startswith(b"GET /peer/again/abc?from=")
            assert int(asked[1].split(b"from=")[1].split()[0]) > 0

    run(test())


def test_our_own_server_gives_the_rest_of_an_answer_to_whom_it_was_for(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs) as (address, _), asking(certs) as berlin, asking(certs, "paris") as paris:
            async with berlin._open().post(f"https://{address}/peer/pull", data=b"x") as response:
                await response.read()
                token = response.headers["etag"]
            rest = f"https://{address}/peer/again/{token}?from=1000"
            async with berlin._open().get(rest) as response:
                assert await response.read() == MODEL[1000:]
            for session, url in (
                (paris, rest),
                (berlin, rest.replace(token, "0" * 32)),
                (berlin, rest + "x"),
                (berlin, rest.replace("1000", "99999999999")),
            ):
                async with session._open().get(url) as response:
                    assert response.status == 404

    run(test())


def test_a_peer_that_hangs_is_given_up_and_left_alone(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_client, "LONGEST", 1.0)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        await asyncio.sleep(30)

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as me:
            with pytest.raises(PeerError, match="no answer in"):
                await me.ask(address, "pull", b"x", edge="paris")
            assert me.resting(address, "paris")

    run(test())


def test_an_endless_answer_is_cut(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_client, "LARGEST_ANSWER", 200_000)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(100):  # without an end it would go on for ever: a closed connection need not raise
                writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as me:
            with pytest.raises(PeerError, match="more than 200000 bytes"):
                await me.ask(address, "pull", b"x", edge="paris")

    run(test())


@pytest.mark.parametrize(
    "garbage", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n\xc1\xc1\xc1\xc1"]
)
def test_garbage_is_an_error_of_that_peer(certs: Path, garbage: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one_request(reader)
        writer.write(garbage)
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as me:
            with pytest.raises(PeerError, match=address):
                await me.ask(address, "pull", b"x", edge="paris")

    run(test())


def test_deadlines_follow_the_peer_and_rests_grow() -> None:
    manner = PeerHistory()
    for _ in range(20):
        manner.answered(1.0)
    assert manner.deadline() == pytest.approx(5.0)
    rests = []
    for _ in range(12):
        manner.failed(100.0)
        rests.append(manner.rest_until - 100.0)
    assert rests[:4] == [1.0, 2.0, 4.0, 8.0]
    assert rests[-1] == peer_client.LONGEST_REST
    manner.answered(0.001)
    assert manner.rest_until == 0.0
    for _ in range(50):
        manner.answered(0.001)
    assert manner.deadline() == peer_client.SHORTEST
