"""Peers that break off, hang, send garbage or answer for another: the client gives up on them, and only on them."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from alphaedge.edge.transport import client, peer_history
from alphaedge.errors import PeerError

from ..directories import run
from .ends import MODEL, asking, odd_server, read_request, serving


def test_an_answer_of_another_edge_is_refused(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs, "berlin") as (address, _), asking(certs) as berlin:
            with pytest.raises(PeerError, match="berlin answers there, not paris"):
                await berlin.request(address, "pull", b"x", edge="paris")

    run(test())


def test_the_client_asks_for_the_rest_of_an_answer_that_breaks_off(certs: Path) -> None:
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_request(reader)
        requests.append(head.split(b"\r\n")[0])
        if head.startswith(b"POST"):
            writer.write(b"HTTP/1.1 200 OK\r\netag: abc\r\ncontent-length: %d\r\n\r\n" % len(MODEL) + MODEL[:100_000])
        else:
            rest = MODEL[int(head.split(b"from=")[1].split()[0]) :]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(rest) + rest)
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            assert await berlin.request(address, "pull", b"x", edge="paris") == MODEL
            assert len(requests) == 2
            assert requests[1].startswith(b"GET /peer/again/abc?from=")
            assert int(requests[1].split(b"from=")[1].split()[0]) > 0

    run(test())


def test_a_peer_that_hangs_is_given_up_and_rests(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_history, "FIRST_DEADLINE_SECONDS", 0.5)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.Event().wait()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match="no answer within"):
                await berlin.request(address, "pull", b"x", edge="paris")
            assert berlin.is_resting(address, "paris")
            assert not berlin.is_resting(address, "lyon"), "another edge at the same address"

    run(test())


def test_an_endless_answer_is_cut_off(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 200_000)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(100):  # not for ever: writing to a closed connection need not raise
                writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match="more than 200000 bytes"):
                await berlin.request(address, "pull", b"x", edge="paris")

    run(test())


@pytest.mark.parametrize(
    "garbage", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n\xc1\xc1\xc1\xc1"]
)
def test_garbage_is_an_error_of_that_peer(certs: Path, garbage: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(garbage)
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match=address):
                await berlin.request(address, "pull", b"x", edge="paris")

    run(test())
