"""Members that ask for too much, too often or too slowly: each is refused, and nobody else notices."""

import asyncio
import errno
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from alphaedge.edge.transport import listener, server
from alphaedge.edge.transport.connections import MAX_PER_MEMBER
from alphaedge.edge.transport.pace import Pace
from alphaedge.edge.transport.server import PeerServer, Route
from alphaedge.edge.trust.certificates import Identity
from alphaedge.errors import PeerError, PeerRequestTooLarge

from ..directories import run
from .ends import MODEL, Paris, ask, asking, connected, credentials, limited, read_head, say

HEAD = b"POST /peer/pull HTTP/1.1\r\nhost: paris\r\n"


@asynccontextmanager
async def paris(certs: Path, requests_per_second: float = 100.0) -> AsyncIterator[tuple[str, Paris, PeerServer]]:
    """Serve as paris, which takes requests of 1000 bytes: the address, what answers, and the server."""
    made = PeerServer(credentials(certs, "paris"), requests_per_second=requests_per_second)
    async with limited(made) as (address, answering):
        yield address, answering, made


async def until_hit(made: PeerServer, member: str, limit: str) -> None:
    while not made.hits.counts.get(member, {}).get(limit):
        await asyncio.sleep(0.01)


def test_a_request_that_is_too_large_is_refused_unread(certs: Path) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, made):
            status, _ = await say(certs, address, HEAD + b"content-length: 1001\r\n\r\n")  # and nothing more
            assert status == b"http/1.1 413 request entity too large"
            assert made.hits.counts == {"berlin": {"size": 1}}
            assert answering.pulls == []

    run(test())


def test_a_client_hears_why_its_large_request_is_refused_while_it_still_sends(certs: Path) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, _), asking(certs) as berlin:
            with pytest.raises(PeerError, match="413: 50000000 bytes; pull takes at most 1000"):
                await ask(berlin, address, bytes(50_000_000))
            assert await ask(berlin, address, bytes(1000)) == MODEL
            assert len(answering.pulls) == 1

    run(test())


@pytest.mark.parametrize("body", [b"garbage", gzip.compress(bytes(10**7))[:1000]])
@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"nonsense"])
def test_a_compressed_request_is_refused_unread(certs: Path, encoding: bytes, body: bytes) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, made):
            framing = b"content-encoding: %s\r\ncontent-length: %d\r\n\r\n" % (encoding, len(body))
            status, _ = await say(certs, address, HEAD + framing + body)
            assert status.startswith(b"http/1.1 415")
            assert made.hits.counts == {"berlin": {"encoding": 1}}
            assert answering.pulls == []

    run(test())


def test_a_request_of_unknown_length_is_refused(certs: Path) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, _):
            status, _ = await say(certs, address, HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
            assert status.startswith(b"http/1.1 411")
            assert answering.pulls == []

    run(test())


def test_a_member_that_asks_too_often_is_refused_and_others_are_not(certs: Path) -> None:
    async def test() -> None:
        async with (
            paris(certs, requests_per_second=0.1) as (address, answering, made),
            asking(certs) as berlin,
            asking(certs, "paris") as other,
        ):
            with pytest.raises(PeerError, match="403"):
                await ask(berlin, address, b"forbidden")
            with pytest.raises(PeerError, match="429: too many requests") as refused:
                await ask(berlin, address, b"forbidden")
            assert 0 < refused.value.retry_after <= 10
            assert berlin.is_resting(address, "paris")
            assert made.hits.counts == {"berlin": {"rate": 1}}
            with pytest.raises(PeerError, match="403"):
                await ask(other, address, b"forbidden")
            assert len(answering.pulls) == 2

    run(test())


def test_large_requests_of_a_member_do_not_add_up(certs: Path) -> None:
    """As long as one request fills the memory that a member may take, another one has to wait."""

    async def test() -> None:
        async with paris(certs) as (address, answering, made), connected(certs, address) as (_, writer):
            writer.write(HEAD + b"content-length: 900\r\n\r\n" + bytes(100))
            async with asking(certs) as berlin:
                await ask(berlin, address)  # by now the other one is being read
                with pytest.raises(PeerError, match="429: too many large requests at once"):
                    await ask(berlin, address, bytes(200))
                writer.write(bytes(800))
                while len(answering.pulls) < 2:
                    await asyncio.sleep(0.01)
            assert made.hits.counts["berlin"]["memory"] == 1

    run(test())


@pytest.mark.parametrize("lines", [b"x-long: " + b"x" * 9000 + b"\r\n", b"x-many: x\r\n" * 100])
def test_a_head_of_a_peer_that_is_too_large_is_refused(certs: Path, lines: bytes) -> None:
    async def test() -> None:
        async with paris(certs) as (address, _, made):
            status, _ = await say(certs, address, HEAD + lines + b"content-length: 1\r\n\r\nx")
            assert status.split()[1] == b"431"
            assert made.hits.counts == {"berlin": {"head": 1}}

    run(test())


def test_a_request_that_arrives_too_slowly_is_refused(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Pace", partial(Pace, grace=0.2))

    async def test() -> None:
        async with paris(certs) as (address, answering, made), connected(certs, address) as (reader, writer):
            writer.write(HEAD + b"content-length: 1000\r\n\r\n")
            head = asyncio.create_task(read_head(reader))
            while not head.done():
                writer.write(b"x")
                await asyncio.sleep(0.02)
            assert head.result()[0].startswith(b"http/1.1 408")
            assert made.hits.counts == {"berlin": {"slow_request": 1}}
            assert answering.pulls == []

    run(test())


def test_a_head_that_does_not_arrive_ends_the_connection(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 0.3)

    async def test() -> None:
        async with paris(certs) as (address, _, _made), connected(certs, address) as (reader, writer):
            ended = asyncio.create_task(reader.read())
            while not ended.done():
                writer.write(b"P")
                await asyncio.sleep(0.02)

    run(test())


def test_a_member_that_does_not_read_its_answer_is_cut_off(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Pace", partial(Pace, grace=0.2, rate=10**9))

    async def large(_: Identity, __: bytes) -> bytes:
        return bytes(40_000_000)  # more than the system buffers

    async def test() -> None:
        async with paris(certs) as (address, _, made), connected(certs, address) as (reader, writer):
            made.routes["large"] = Route(large, 1000)
            transport = writer.transport
            assert isinstance(transport, asyncio.ReadTransport)
            transport.pause_reading()
            writer.write(b"POST /peer/large HTTP/1.1\r\nhost: paris\r\ncontent-length: 1\r\n\r\nx")
            await until_hit(made, "berlin", "slow_reader")
            transport.resume_reading()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(40_000_000)

    run(test())


def test_a_member_with_too_many_connections_loses_its_oldest(certs: Path) -> None:
    async def test() -> None:
        async with paris(certs) as (address, _, made), asking(certs, "paris") as other:
            await ask(other, address)
            context = [connected(certs, address) for _ in range(MAX_PER_MEMBER + 1)]
            ends = [await one.__aenter__() for one in context]
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await ends[0][0].readexactly(1)
            ends[-1][1].write(HEAD + b"content-length: 1\r\n\r\nx")
            assert (await read_head(ends[-1][0]))[0].startswith(b"http/1.1 200")
            assert made.hits.counts == {"berlin": {"connections": 1}}
            await ask(other, address)
            for one in context:
                await one.__aexit__(None, None, None)

    run(test())


def test_the_connections_of_a_member_can_be_closed(certs: Path) -> None:
    async def test() -> None:
        async with (
            paris(certs) as (address, _, made),
            connected(certs, address) as (reader, writer),
            connected(certs, address, "paris") as (other_reader, other_writer),
        ):
            for one_reader, one_writer in ((reader, writer), (other_reader, other_writer)):
                one_writer.write(HEAD + b"content-length: 6\r\n\r\n" + b"forbid")
                await read_head(one_reader)
                await one_reader.readexactly(len(MODEL))
            made.disconnect("berlin")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            other_writer.write(HEAD + b"content-length: 1\r\n\r\nx")
            assert (await read_head(other_reader))[0].startswith(b"http/1.1 200")

    run(test())


@pytest.mark.parametrize("problem", [MemoryError(), OSError(errno.EMFILE, "Too many open files")])
def test_a_request_without_memory_ends_nothing_but_itself(certs: Path, problem: BaseException) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, _), asking(certs) as berlin:
            answering.fails = problem
            with pytest.raises(PeerError, match="503: no room for this request"):
                await ask(berlin, address)
            answering.fails = None
            assert await ask(berlin, address) == MODEL

    run(test())


def test_a_bug_is_answered_without_its_details(certs: Path) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, _), asking(certs) as berlin:
            answering.fails = KeyError("secret")
            with pytest.raises(PeerError, match=r"500: this edge failed$"):
                await ask(berlin, address)

    run(test())


def test_a_request_that_names_too_much_is_counted(certs: Path) -> None:
    async def test() -> None:
        async with paris(certs) as (address, answering, made), asking(certs) as berlin:
            answering.fails = PeerRequestTooLarge("a list of 20 keys; allowed: at most 10")
            with pytest.raises(PeerError, match="413: a list of 20 keys"):
                await ask(berlin, address)
            assert made.hits.counts == {"berlin": {"entries": 1}}

    run(test())


def test_a_member_whose_requests_take_too_long_is_refused_for_a_while(certs: Path) -> None:
    """What gossip needs is still answered."""
    worked = {"berlin": 0.0, "paris": 0.0}

    async def test() -> None:
        async with paris(certs) as (address, _, made), asking(certs) as berlin:

            async def pull(sender: Identity, request: bytes) -> bytes:
                worked[sender.edge] += 2.0
                return b""

            made.routes["gossip"] = made.routes["pull"]
            made.routes["pull"] = made.routes["rows"] = Route(pull, 1000, lambda member: worked[member])
            for _ in range(2):
                await ask(berlin, address)
            for endpoint in ("pull", "rows"):
                with pytest.raises(PeerError, match="429: this edge has worked too long") as refused:
                    await ask(berlin, address, endpoint=endpoint)
                assert 10 < refused.value.retry_after <= 20
            assert worked["berlin"] == 4.0
            assert made.hits.counts == {"berlin": {"cpu": 2}}
            assert await ask(berlin, address, endpoint="gossip") == MODEL
            async with asking(certs, "paris") as other:
                assert await ask(other, address) == b""

    run(test())
