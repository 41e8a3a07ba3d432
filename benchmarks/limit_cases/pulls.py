"""What other members and strangers can cost an edge with pulls, and with connections to its port for peers.

A member sends what must be refused, the largest requests that are accepted, and floods of connections; another server
drips, and sends too much.
"""

import asyncio
import contextlib
import gzip
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch

from alphaedge.edge.learning.publication import PullRequest
from alphaedge.edge.peers.key_lists import max_keys, pack_keys
from alphaedge.edge.peers.wire import max_request_bytes, pack_request
from alphaedge.edge.transport.client import DEADLINE_SECONDS, PeerClient
from alphaedge.errors import PeerError
from benchmarks.limit_cases.measured import ACCEPTED_CPU_MS, Accepted, Row, Work
from benchmarks.limit_cases.peer_port import (
    ANSWER_BYTES,
    CAPACITY,
    CIPHER,
    HEAD,
    MAX_CONNECTIONS,
    SCHEMA,
    Member,
    PeerPort,
    credentials,
    post,
)

KEYS_CPU_MS_PER_MB: Final = 150.0  # of keys, 8 bytes each
ANSWER_CPU_MS_PER_MB: Final = 15.0
TOO_LARGE_CPU_MS: Final = 100.0  # of an answer that is not what was asked for
MEMBER: Final = "member"


def many_keys() -> bytes:
    """A request of 156 KB that names 20 million keys, one after the other."""
    count = 20_000_000
    packed = count.to_bytes(4, "little") + zlib.compress(b"\1" * count + bytes(7 * count))
    none = pack_keys(torch.empty(0, dtype=torch.long))
    return msgspec.msgpack.encode([SCHEMA, 0, b"", [packed], [none]])


def large_request(count: int) -> bytes:
    """A request with so many keys."""
    keys = np.unique(np.random.default_rng(0).integers(2**48, size=count))
    none = torch.empty(0, dtype=torch.long)
    return pack_request(PullRequest(0, (torch.from_numpy(keys),), (none,)), SCHEMA, None, CIPHER)[0]


def refusals(member: Member) -> dict[str, Work]:
    """What must be refused."""
    bomb = gzip.compress(bytes(10**8))
    return {
        "a request that is too large": member.refused(413, HEAD % b"pull" + b"content-length: 500000000\r\n\r\n"),
        "a gzip bomb": member.refused(415, post(b"pull", bomb, b"content-encoding: gzip")),
        "20 million keys in 156 KB": member.refused(413, post(b"pull", many_keys())),
        "garbage": member.refused(409, post(b"pull", bytes(range(256)) * 400)),
        "too many requests": member.refused(429, post(b"pull", b"x"), port=1),
        "a head that is too large": member.refused(431, HEAD % b"pull" + b"x: x\r\n" * 500 + b"\r\n"),
        "an unknown path": member.refused(404, post(b"money", b"x")),
        "no TLS": member.without_tls,
        "no certificate": member.without_certificate,
    }


def measure_port(port: PeerPort, member: Member) -> Iterator[Row]:
    """What one member costs."""
    process, refused = port.process, refusals(member)
    small = pack_request(PullRequest(0, (torch.tensor([5]),), (torch.tensor([5]),)), SCHEMA, None, CIPHER)[0]
    largest, cap = large_request(max_keys([CAPACITY])), max_request_bytes(max_keys([CAPACITY]))
    taken = {
        "the largest request": Accepted(
            lambda: member.request("pull", largest), 8 * max_keys([CAPACITY]) / 1e6, KEYS_CPU_MS_PER_MB
        ),
        "an answer of 32 MB": Accepted(lambda: member.request("large", b"x"), ANSWER_BYTES / 1e6, ANSWER_CPU_MS_PER_MB),
    }
    member.request("pull", large_request(50_000))
    # Memory first of all, as freed memory may stay with the process.
    yield from process.memory({"the largest request": taken["the largest request"].work}, cap)
    yield from process.memory({"an answer of 32 MB": taken["an answer of 32 MB"].work}, ANSWER_BYTES)
    with contextlib.suppress(AssertionError):
        refused["too many requests"]()  # the first one is answered
    yield from process.refused(refused)
    base = process.cpu_ms(lambda: member.request("pull", small))
    yield Row("accepted: a pull of one row", "ms of CPU", base, ACCEPTED_CPU_MS)
    yield from process.accepted(taken)
    works = {name: one.work for name, one in taken.items()}
    yield from process.held(works | {name: refused[name] for name in list(refused)[:3]})
    yield from _flood(port, member, small)


def _flood(port: PeerPort, member: Member, request: bytes) -> Iterator[Row]:
    """Open 500 connections that never start TLS, and ask for something meanwhile."""
    member.request("pull", request)
    before, failed, most, opened = port.process.ask("descriptors"), 0, 0.0, []
    for number in range(500):
        one = socket.create_connection(("127.0.0.1", port.ports[0]))
        opened.append(one)
        if number % 50 == 0:
            most = max(most, port.process.ask("descriptors"))
            try:
                member.request("pull", request)
            except PeerError:
                failed += 1
    most = max(most, port.process.ask("descriptors"))
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

    context = credentials(folder, "edge").ssl_context(ssl.Purpose.CLIENT_AUTH)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = PeerClient(credentials(folder, MEMBER), time.monotonic)
    began = time.process_time()
    with contextlib.suppress(PeerError):
        await client.request(address, "flood", b"x", max_bytes=10**7)
    cost = 1e3 * (time.process_time() - began)
    yield Row("pull: an answer that is too large", "ms of CPU", cost, TOO_LARGE_CPU_MS)
    began = time.monotonic()
    with contextlib.suppress(PeerError):
        await client.request(address, "drip", b"x", max_bytes=10**9)
    yield Row("pull: time for a peer that drips", "s", time.monotonic() - began, DEADLINE_SECONDS)
    await client.close()
    await asyncio.gather(*filter(None, answering))
    server.close()


def measure(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Measure pulls and connections. quick: with few repetitions."""

    async def collect() -> list[Row]:
        return [row async for row in _measure_client(folder)]

    with PeerPort(folder, [MEMBER], 6 if quick else 21) as port, contextlib.closing(Member(port, MEMBER)) as member:
        yield from measure_port(port, member)
        yield from asyncio.run(collect())
