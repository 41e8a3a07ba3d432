"""Connections that are of no use do not keep others out."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from alphaedge.edge.transport import listener, listening
from alphaedge.edge.transport.limit_hits import UNIDENTIFIED
from alphaedge.edge.transport.listener import Listener
from alphaedge.edge.transport.server import PeerServer

from ..directories import run
from .ends import MODEL, ask, asking, credentials, limited


@contextlib.contextmanager
def flood(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Open TCP connections that never say anything."""
    host, _, port = address.rpartition(":")
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.socket()
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect((host, int(port)))
            opened.append(one)
        yield opened
    finally:
        for one in opened:
            one.close()


def table_of(server: PeerServer) -> Listener:
    assert server._listener is not None
    return server._listener


def test_a_flood_of_connections_without_tls_keeps_nobody_out(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "NEW_AT_ONCE", 10_000.0)  # all of them have the address of berlin

    async def test() -> None:
        server = PeerServer(credentials(certs, "paris"), max_connections=40)
        async with limited(server) as (address, _), asking(certs) as berlin:
            table = table_of(server).table
            for _ in range(3):
                with flood(address, 100):
                    assert await ask(berlin, address) == MODEL
                    assert len(table) <= 40
                    await berlin.close()
                    berlin._session = None
                    assert await ask(berlin, address) == MODEL, "with a new connection too"
            assert server.hits.counts[UNIDENTIFIED]["connections"] > 0
            while len(table) > 1:  # only the one of berlin stays
                await asyncio.sleep(0.01)

    run(test())


def test_a_flood_leaves_descriptors_for_files(certs: Path) -> None:
    async def test() -> None:
        server = PeerServer(credentials(certs, "paris"), max_connections=40)
        async with limited(server) as (address, _):
            before = len(os.listdir("/dev/fd"))
            with flood(address, 300):
                while server.hits.counts.get(UNIDENTIFIED, {}).get("connections", 0) < 100:
                    await asyncio.sleep(0.01)
                assert len(os.listdir("/dev/fd")) - 300 - before <= 41

    run(test())


def test_a_connection_that_does_not_start_tls_is_closed(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)

    async def test() -> None:
        async with limited(PeerServer(credentials(certs, "paris"))) as (address, _):
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            assert await reader.read() == b""
            writer.close()

    run(test())


def test_new_connections_of_one_address_are_limited(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "NEW_PER_SECOND", 0.001)
    monkeypatch.setattr(listener, "NEW_AT_ONCE", 3.0)

    async def test() -> None:
        server = PeerServer(credentials(certs, "paris"))
        async with limited(server) as (address, _), asking(certs) as berlin:
            assert await ask(berlin, address) == MODEL
            host, _, port = address.rpartition(":")
            for _ in range(10):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
            assert await ask(berlin, address) == MODEL, "over the connection that is open"
            while server.hits.counts.get(UNIDENTIFIED, {}).get("connections", 0) < 8:
                await asyncio.sleep(0.01)

    run(test())


def test_without_descriptors_connections_wait(certs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "PAUSE_SECONDS", 0.01)

    async def test() -> None:
        loop, failures = asyncio.get_running_loop(), 3
        accept = loop.sock_accept

        async def fail(listening: socket.socket) -> tuple[socket.socket, object]:
            nonlocal failures
            if failures:
                failures -= 1
                raise OSError(24, "Too many open files")
            return await accept(listening)

        monkeypatch.setattr(loop, "sock_accept", fail)
        async with limited(PeerServer(credentials(certs, "paris"))) as (address, _), asking(certs) as berlin:
            assert await ask(berlin, address) == MODEL
            assert failures == 0

    run(test())


def test_a_stop_ends_handshakes_that_are_under_way(certs: Path) -> None:
    async def test() -> None:
        server = PeerServer(credentials(certs, "paris"))
        async with limited(server) as (address, _):
            with flood(address, 10):
                while len(table_of(server).table) < 10:
                    await asyncio.sleep(0.01)
                await server.stop()
        assert len(table_of(server).table) == 0

    run(test())
