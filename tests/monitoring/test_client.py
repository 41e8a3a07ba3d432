"""The client for a fleet reads what a server sends, and its errors name the URL and the reason."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from alphaedge.dashboard.routes import KEEP_ALIVE_SECONDS
from alphaedge.errors import InvalidValue, Unreachable
from alphaedge.monitoring import client
from alphaedge.monitoring.client import FleetClient
from alphaedge.monitoring.frames import Frame
from tests.dashboard.serving import Served
from tests.monitoring.synthetic import states

TOKEN = "s3cret"
LIMIT_SECONDS = 60.0  # only a stream that hangs reaches it


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(TOKEN) as server:
        for time, state in states(6, 20):
            server.add(time, state)
        yield server


def test_the_fleet_is_the_servers_history(served: Served) -> None:
    fleet = FleetClient(served.url, TOKEN).fetch_fleet()
    assert (fleet.edge, fleet.frames) == ("berlin", served.history.since(0.0))


def test_the_stream_continues_after_a_time(served: Served) -> None:
    frames = served.history.since(0.0)

    async def read(after: float, count: int) -> list[Frame]:
        async with contextlib.aclosing(FleetClient(served.url, TOKEN).stream(after)) as stream:
            return [await anext(stream) for _ in range(count)]

    assert asyncio.run(read(frames[10].time, 9)) == frames[11:]


def test_a_stream_ends_when_the_server_stops() -> None:
    async def read(server: Served) -> list[Frame]:
        frames = []
        async for frame in FleetClient(server.url).stream(0.0):
            frames.append(frame)
            await asyncio.to_thread(server.stop)
        return frames

    server = Served()
    server.start()
    server.add(*next(states(6, 1)))
    assert asyncio.run(read(server)) == server.history.since(0.0)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n: ping\n\n"])
def test_the_stream_of_an_edge_that_falls_silent_ends(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    assert client.STREAM_SILENCE_SECONDS >= 2 * KEEP_ALIVE_SECONDS, "one late comment does not end it"
    monkeypatch.setattr(client, "STREAM_SILENCE_SECONDS", 0.1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await reader.read()  # until the client closes
        writer.close()

    async def read() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with asyncio.timeout(LIMIT_SECONDS):
                await anext(FleetClient(f"http://127.0.0.1:{port}").stream(0.0))

    with pytest.raises(Unreachable, match=r"the stream broke off \(Timeout"):
        asyncio.run(read())


def test_a_refusal_names_the_url_and_the_reason(served: Served) -> None:
    stranger = FleetClient(served.url, "wrong")
    with pytest.raises(Unreachable, match=rf"^{served.url}: 401: send the token$"):
        stranger.fetch_fleet()

    async def read() -> None:
        await anext(stranger.stream(0.0))

    with pytest.raises(Unreachable, match=rf"^{served.url}: 401: send the token$"):
        asyncio.run(read())


def test_no_answer_is_an_error() -> None:
    with pytest.raises(Unreachable, match=r"^http://127.0.0.1:9: no answer \("):
        FleetClient("http://127.0.0.1:9").fetch_fleet()


def test_a_path_is_allowed_for_an_edge_behind_a_proxy() -> None:
    assert FleetClient("https://example.com/berlin/").url == "https://example.com/berlin"
    with pytest.raises(InvalidValue, match=r"^edge: found 'berlin'; allowed: http://host:port or https://host:port$"):
        FleetClient("berlin")
