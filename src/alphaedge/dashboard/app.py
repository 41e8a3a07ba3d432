"""The web page and what it asks for: the fleet until now, and each new frame as it comes (server-sent events)."""

import asyncio
import contextlib
import hashlib
import math
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, final

import anyio
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Send

from alphaedge.monitoring.frames import Fleet, Frame

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS: Final = {
    "cache-control": "no-cache",  # ask each time whether it has changed: an upgrade shows at once
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
EVENTS: Final = "text/event-stream; charset=utf-8"
KEEP_ALIVE: Final = 10.0  # seconds of silence, after which a comment tells both ends that the other is there
WORTH: Final = 10_000  # bytes from which on compression pays
GZIP: Final = 16 + zlib.MAX_WBITS


def routes(
    fleet: Callable[[], Fleet],
    stream: Callable[[float], AsyncIterator[Frame]],
    authorised: Callable[[Request], None],
    *,
    keep_alive: float = KEEP_ALIVE,
) -> list[BaseRoute]:
    """What belongs into a Starlette application for the dashboard to be there.

    fleet: all frames until now. stream: frames later than a time, as they come; to let a server stop, end it. It is
    closed when the client goes. authorised: raises HTTPException 401 for a request that may not see the fleet; the page
    itself has nothing to hide.
    """

    async def whole(request: Request) -> Response:
        authorised(request)
        body, headers = msgspec.json.encode(fleet()), {"cache-control": "no-store", "vary": "accept-encoding"}
        if len(body) >= WORTH and "gzip" in request.headers.get("accept-encoding", ""):
            body = await asyncio.to_thread(zlib.compress, body, 1, GZIP)
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers, media_type="application/json")

    async def following(request: Request) -> Response:
        authorised(request)
        after = _time(request.headers.get("last-event-id") or request.query_params.get("after", "0"))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # a proxy must not wait for more
        if request.method == "HEAD":
            return Response(headers=headers, media_type=EVENTS)
        return _Events(_events(stream(after), keep_alive), headers=headers, media_type=EVENTS)

    files = {path.name: _file(path) for path in STATIC.iterdir() if path.suffix in TYPES}
    return [
        Route("/dashboard", files.pop(PAGE)),
        *(Route(f"/dashboard/{name}", file) for name, file in sorted(files.items())),
        Route("/fleet", whole),
        Route("/fleet/stream", following),
    ]


@final
class _Events(StreamingResponse):
    async def stream_response(self, send: Send) -> None:
        """See ``StreamingResponse``; what it reads from is closed however this ends."""
        assert isinstance(self.body_iterator, AsyncGenerator)
        async with contextlib.aclosing(self.body_iterator):
            await super().stream_response(send)


async def _events(frames: AsyncIterator[Frame], keep_alive: float) -> AsyncGenerator[bytes, None]:
    """Frames as server-sent events."""
    upcoming = asyncio.ensure_future(anext(frames, None))
    try:
        yield b": here\n\n"  # at once: whoever asked knows that it is connected
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=keep_alive)
            if not done:
                yield b": still here\n\n"
                continue
            frame = upcoming.result()
            if frame is None:
                return
            yield b"event: frame\nid: %b\ndata: %b\n\n" % (msgspec.json.encode(frame.time), msgspec.json.encode(frame))
            upcoming = asyncio.ensure_future(anext(frames, None))
    finally:
        upcoming.cancel()
        with anyio.CancelScope(shield=True):  # the request may be cancelled, the iterator has to end all the same
            await asyncio.wait({upcoming})
            if isinstance(frames, AsyncGenerator):
                await frames.aclose()


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    """The answer to who asks for a file, read once."""
    body = path.read_bytes()
    headers = HEADERS | {"etag": f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=TYPES[path.suffix])

    return answer


def _time(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise HTTPException(400, f"after: {text[:100]!r} is no time; allowed: seconds since 1970")
    return found
