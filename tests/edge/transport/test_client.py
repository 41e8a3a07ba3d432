"""Peers that break off, hang, drip, flood, send garbage or answer for another: the client gives up on them alone."""

import asyncio
import contextlib
import gzip
import ssl
from functools import partial
from pathlib import Path

import pytest

from alphaedge.edge.transport import client
from alphaedge.edge.transport.connections import MAX_PER_MEMBER
from alphaedge.edge.transport.pace import Pace
from alphaedge.errors import PeerError

from ..directories import run
from .ends import MODEL, ask, asking, odd_server, read_request, serving


def test_an_answer_of_another_edge_is_refused(certs: Path) -> None:
    async def test() -> None:
        async with serving(certs, "berlin") as (address, _), asking(certs) as berlin:
            with pytest.raises(PeerError, match="berlin answers there, not paris"):
                await ask(berlin, address)

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
            assert await ask(berlin, address) == MODEL
            assert len(requests) == 2
            assert requests[1].startswith(b"GET /peer/again/abc?from=")
            assert int(requests[1].split(b"from=")[1].split()[0]) > 0

    run(test())


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    await asyncio.Event().wait()


def test_a_peer_that_hangs_is_given_up_and_rests(certs: Path) -> None:
    async def test() -> None:
        async with odd_server(certs, hang) as address, asking(certs, deadline=0.5) as berlin:
            with pytest.raises(PeerError, match=r"no answer within 0.5 s"):
                await ask(berlin, address)
            assert berlin.is_resting(address, "paris")
            assert not berlin.is_resting(address, "lyon"), "another edge at the same address"

    run(test())


def test_failures_do_not_lengthen_the_deadline(certs: Path) -> None:
    async def test() -> None:
        async with odd_server(certs, hang) as address, asking(certs, deadline=0.1) as berlin:
            for _ in range(4):
                with pytest.raises(PeerError, match=r"no answer within 0.1 s"):
                    await ask(berlin, address)
            with pytest.raises(PeerError, match=r"no answer within 0.04 s"):
                await ask(berlin, address, spent=0.06)

    run(test())


def test_the_deadline_is_for_both_attempts(certs: Path) -> None:
    requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        if requests > 1:
            await hang(reader, writer)
        await read_request(reader)
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs, deadline=1.0) as berlin:
            with pytest.raises(PeerError, match="no answer within 1 s"):
                await ask(berlin, address)
            assert requests == 2

    run(test())


def test_a_peer_that_drips_is_cut_off_long_before_the_deadline(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "Pace", partial(Pace, grace=0.3))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(1000):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs, deadline=600.0) as berlin:
            with pytest.raises(PeerError, match="arrives too slowly"):
                await ask(berlin, address)
            assert berlin.is_resting(address, "paris")

    run(test())


@pytest.mark.parametrize("framing", [b"transfer-encoding: chunked", b"content-length: 990000000"])
def test_an_answer_that_is_too_large_is_cut_off_and_not_asked_for_again(certs: Path, framing: bytes) -> None:
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\netag: abc\r\n%s\r\n\r\n" % framing)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for _ in range(100):  # not for ever: writing to a closed connection need not raise
                writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match="more than 200000 bytes"):
                await ask(berlin, address, max_bytes=200_000)
            assert len(requests) == 1

    run(test())


def test_all_attempts_together_get_no_more_than_the_largest_answer(certs: Path) -> None:
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        length = 190_000 if len(requests) == 1 else 150_000  # the rest would be 40,000
        writer.write(b"HTTP/1.1 200 OK\r\netag: abc\r\ncontent-length: %d\r\n\r\n" % length + bytes(150_000))
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match="more than 200000 bytes"):
                await ask(berlin, address, max_bytes=200_000)
            assert [head.split()[0] for head in requests] == [b"POST", b"GET"]

    run(test())


def test_an_answer_that_breaks_off_for_good_is_not_read_twice(certs: Path) -> None:
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(MODEL) + MODEL[:100_000])
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match="Payload"):
                await ask(berlin, address)
            assert len(requests) == 1

    run(test())


def test_a_compressed_answer_is_refused_unread(certs: Path) -> None:
    bomb = gzip.compress(bytes(10**7))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_request(reader)
        assert b"accept-encoding: identity" in head.lower()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb) + bomb)

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            with pytest.raises(PeerError, match="content-encoding"):
                await ask(berlin, address)

    run(test())


def test_a_peer_whose_answers_are_refused_rests_longer_each_time(certs: Path) -> None:
    now = 100.0

    async def test() -> None:
        nonlocal now
        async with serving(certs) as (address, _), asking(certs) as berlin:
            berlin.clock = lambda: now
            for rest in (1.0, 2.0, 4.0):
                await ask(berlin, address)
                berlin.record_refusal(address, "paris")
                now += rest - 0.1
                assert berlin.is_resting(address, "paris")
                now += 0.2
                assert not berlin.is_resting(address, "paris")
            berlin.record_acceptance(address, "paris")
            berlin.record_refusal(address, "paris")
            now += 1.1
            assert not berlin.is_resting(address, "paris"), "a first refusal again"

    run(test())


def test_histories_of_ever_new_addresses_are_forgotten(certs: Path) -> None:
    async def test() -> None:
        async with asking(certs) as berlin:
            for number in range(3 * client.MAX_HISTORIES):
                berlin.record_refusal(f"10.0.0.1:{number}", "paris")
            assert len(berlin.histories) == client.MAX_HISTORIES
            assert berlin.is_resting(f"10.0.0.1:{3 * client.MAX_HISTORIES - 1}", "paris")

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
                await ask(berlin, address)

    run(test())


def test_requests_that_wait_for_a_connection_outlive_a_reconnection(certs: Path) -> None:
    """Other than the requests under way, they have no connection yet that could break."""
    begun, answering = [], asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(await read_request(reader))
        await answering.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(MODEL) + MODEL)
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with odd_server(certs, handle) as address, asking(certs) as berlin:
            requests = [asyncio.create_task(ask(berlin, address)) for _ in range(MAX_PER_MEMBER + 2)]
            while len(begun) < MAX_PER_MEMBER:
                await asyncio.sleep(0.01)
            await berlin.reconnect()
            answering.set()
            assert await asyncio.gather(*requests) == [MODEL] * len(requests)

    run(test())


def test_a_request_that_waits_for_a_connection_can_be_cancelled(certs: Path) -> None:
    async def test() -> None:
        async with odd_server(certs, hang) as address, asking(certs) as berlin:
            requests = [asyncio.create_task(ask(berlin, address)) for _ in range(MAX_PER_MEMBER + 1)]
            await asyncio.sleep(0)
            closing = asyncio.create_task(berlin.reconnect())
            for request in requests:
                request.cancel()
            found = await asyncio.gather(*requests, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in found)
            await closing

    run(test())
