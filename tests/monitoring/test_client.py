"""The client for a fleet reads what a server sends, and its errors name the URL and the reason."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from alphaedge.errors import InvalidValue, Unreachable
from alphaedge.monitoring.client import FleetClient
from alphaedge.monitoring.frames import Frame
from tests.dashboard.serving import Served
from tests.monitoring.synthetic import states

TOKEN = "s3cret"


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


def test_a_refusal_names_the_url_and_the_reason(served: Served) -> None:
    client = FleetClient(served.url, "wrong")
    with pytest.raises(Unreachable, match=rf"^{served.url}: 401: send the token$"):
        client.fetch_fleet()

    async def read() -> None:
        await anext(client.stream(0.0))

    with pytest.raises(Unreachable, match=rf"^{served.url}: 401: send the token$"):
        asyncio.run(read())


def test_no_answer_is_an_error() -> None:
    with pytest.raises(Unreachable, match=r"^http://127.0.0.1:9: no answer \("):
        FleetClient("http://127.0.0.1:9").fetch_fleet()


def test_a_path_is_allowed_for_an_edge_behind_a_proxy() -> None:
    assert FleetClient("https://example.com/berlin/").url == "https://example.com/berlin"
    with pytest.raises(InvalidValue, match=r"^edge: found 'berlin'; allowed: http://host:port or https://host:port$"):
        FleetClient("berlin")
