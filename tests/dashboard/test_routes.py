"""The dashboard's routes: the page is public, the fleet needs the token."""

import asyncio
import gzip
import http.client
import itertools
import re
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Iterator, MutableMapping
from email.message import Message
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette

from alphaedge.dashboard.routes import STATIC, dashboard_routes
from alphaedge.monitoring.frames import Fleet, Frame
from tests.monitoring.synthetic import START, states

from ..edge.processes import wait_for
from .serving import WAIT_SECONDS, Served

TOKEN = "s3cret"
SHOWN = {"authorization": f"Bearer {TOKEN}"}
FILES = sorted(path.name for path in STATIC.iterdir() if path.name != "index.html")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(TOKEN) as server:
        for time, state in states(6, 20):
            server.add(time, state)
        yield server


def get(url: str, **headers: str) -> tuple[bytes, Message]:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=WAIT_SECONDS) as answer:
        return answer.read(), answer.headers


def status(url: str, **headers: str) -> int:
    try:
        get(url, **headers)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


class Streaming:
    """A client of the stream."""

    def __init__(self, server: Served, path: str = "/fleet/stream?after=0", **headers: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)
        self.connection.request("GET", path, headers={**SHOWN, **headers})
        self.answer = self.connection.getresponse()

    def event(self) -> list[bytes]:
        """Return the lines of the next event or comment; none at the end."""
        lines: list[bytes] = []
        while (line := self.answer.readline()) not in (b"\n", b""):
            lines.append(line.rstrip(b"\n"))
        return lines

    def frame(self) -> Frame:
        while not (lines := self.event())[0].startswith(b"id"):
            pass
        return msgspec.json.decode(lines[2].removeprefix(b"data: "), type=Frame)

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
def test_the_page_is_public_and_has_its_type_and_security_headers(served: Served, name: str, kind: str) -> None:
    body, headers = get(f"{served.url}/dashboard{name}")
    assert body
    assert headers["content-type"] == kind
    assert headers["cache-control"] == "no-cache"
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer"


def test_all_files_are_served_and_only_these(served: Served) -> None:
    for name in FILES:
        assert get(f"{served.url}/dashboard/{name}")[0] == (STATIC / name).read_bytes()
    for name in ("index.html", "nothing.js", "../app.py", "..%2Fapp.py", "%2e%2e/app.py"):
        assert status(f"{served.url}/dashboard/{name}") == 404


def test_the_page_preloads_every_module() -> None:
    page = (STATIC / "index.html").read_text()
    named = set(re.findall(r'(?:href|src)="dashboard/([^"]+)"', page))
    assert named == set(FILES)


def test_nothing_on_the_page_is_inline_or_foreign_or_made_from_text() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", page)
    for name in ["index.html", *FILES]:
        text = (STATIC / name).read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text), (
            name
        )


def test_no_file_of_the_page_is_long() -> None:
    assert all(len((STATIC / name).read_text().splitlines()) < 300 for name in ["index.html", *FILES])


def test_a_file_that_has_not_changed_is_not_sent_again(served: Served) -> None:
    url = f"{served.url}/dashboard/page.js"
    tag = get(url)[1]["etag"]
    assert status(url, **{"if-none-match": tag}) == 304
    assert status(url, **{"if-none-match": '"another"'}) == 200


def test_files_are_only_read(served: Served) -> None:
    for path in ("/dashboard", "/dashboard/page.js"):
        request = urllib.request.Request(served.url + path, data=b"", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request, timeout=WAIT_SECONDS)
        request = urllib.request.Request(served.url + path, method="HEAD")
        assert urllib.request.urlopen(request, timeout=WAIT_SECONDS).status == 200


@pytest.mark.parametrize("path", ["/fleet", "/fleet/stream?after=0"])
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic s3cret"}])
def test_the_fleet_needs_the_token(served: Served, path: str, headers: dict[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(served.url + path, **headers)
    assert caught.value.code == 401
    assert caught.value.headers["www-authenticate"] == "Bearer"


def test_the_fleet_is_all_frames_until_now(served: Served) -> None:
    body, headers = get(f"{served.url}/fleet", **SHOWN)
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    fleet = msgspec.json.decode(body, type=Fleet)
    assert fleet.edge == "berlin"
    assert fleet.frames == served.history.since(0.0)
    assert fleet.now == fleet.frames[-1].time


def test_the_fleet_is_compressed_if_the_client_accepts_it(served: Served) -> None:
    plain, _ = get(f"{served.url}/fleet", **SHOWN)
    packed, headers = get(f"{served.url}/fleet", **SHOWN, **{"accept-encoding": "gzip"})
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 2


def test_the_stream_is_server_sent_events_with_the_time_as_id(served: Served) -> None:
    frames = served.history.since(0.0)
    stream = Streaming(served, f"/fleet/stream?after={frames[10].time!r}")
    assert stream.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.event()[0].startswith(b":"), "something comes at once"
    for frame in frames[11:]:
        name, event, data = stream.event()
        assert float(name.removeprefix(b"id: ")) == frame.time
        assert event == b"event: frame"
        assert data == b"data: " + msgspec.json.encode(frame)
    stream.close()


def test_a_client_that_reconnects_continues_after_its_last_event(served: Served) -> None:
    frames = served.history.since(0.0)
    stream = Streaming(served, **{"last-event-id": repr(frames[-2].time)})
    assert stream.frame() == frames[-1]
    stream.close()


@pytest.mark.parametrize("after", ["yesterday", "nan", ""])
def test_an_invalid_time_is_refused(served: Served, after: str) -> None:
    assert status(f"{served.url}/fleet/stream?after={after}", **SHOWN) == 400


def test_a_head_request_does_not_keep_the_stream_open(served: Served) -> None:
    request = urllib.request.Request(f"{served.url}/fleet/stream", headers=SHOWN, method="HEAD")
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_new_frame_is_sent_at_once_to_all_clients() -> None:
    steps = list(states(6, 4))
    with Served(TOKEN) as server:
        streams = [Streaming(server) for _ in range(3)]
        for time, state in steps:
            server.add(time, state)
            assert [stream.frame().time for stream in streams] == [time] * 3
        for stream in streams:
            stream.close()


def test_a_silent_stream_sends_keep_alive_comments() -> None:
    with Served(TOKEN, keep_alive=0.01) as server:
        stream = Streaming(server)
        assert all(stream.event()[0].startswith(b":") for _ in range(4))
        server.add(START, next(states(6, 1))[1])
        assert stream.frame().time == START, "a frame after silence is not lost"
        stream.close()


def test_when_the_client_disconnects_its_source_ends() -> None:
    with Served(TOKEN, keep_alive=0.01) as server:
        stream = Streaming(server)
        stream.event()
        wait_for(lambda: server.open_streams == 1, "the stream to begin")
        stream.close()
        wait_for(lambda: server.open_streams == 0, "the stream to end")


async def endless(ended: list[bool]) -> AsyncGenerator[Frame, None]:
    try:
        for number in itertools.count():
            yield Frame(time=float(number))
    finally:
        ended.append(True)


def test_when_sending_fails_the_source_ends() -> None:
    ended: list[bool] = []

    async def go() -> None:
        frames = endless(ended)  # held here, so that it is not closed by the garbage collector
        empty = Fleet(edge="berlin", now=0.0, frames=())
        app = Starlette(routes=dashboard_routes(lambda: empty, lambda _: frames, lambda _: None))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": "GET",
            "path": "/fleet/stream",
            "headers": [],
            "query_string": b"",
        }

        async def receive() -> dict[str, str]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            if b"event" in message.get("body", b""):
                raise OSError("the connection is gone")

        with pytest.raises(OSError, match="the connection is gone"):
            await app(scope, receive, send)
        assert ended == [True]
        assert await anext(frames, None) is None

    asyncio.run(go())


def test_when_the_server_stops_its_streams_end_cleanly() -> None:
    with Served(TOKEN) as server:
        stream = Streaming(server)
        stream.event()
        wait_for(lambda: server.open_streams == 1, "the stream to begin")
    assert stream.event() == [], "the end, and no broken chunk"
    assert server.open_streams == 0
    stream.close()
