"""HTTP routes of the dashboard: the page's files, the fleet's history, and new frames as server-sent events."""

import asyncio
import contextlib
import math
import os
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Final, final

import msgspec
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from alphaedge.monitoring.frames import Fleet, Frame

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
CONTENT_TYPES: Final = {  # the system's own table may differ, and with nosniff a browser takes it at its word
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS: Final = {
    "cache-control": "no-cache",  # ask each time whether the file has changed: an upgrade shows at once
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
KEEP_ALIVE_SECONDS: Final = 10.0  # between comments in a stream, by which each end knows that the other is there
SHUTDOWN_GRACE_SECONDS: Final = 5.0  # for streams to end by themselves, before sse-starlette cancels them
MIN_COMPRESS_BYTES: Final = 10_000
GZIP: Final = 16 + zlib.MAX_WBITS


def dashboard_routes(
    fleet: Callable[[], Fleet],
    stream: Callable[[float], AsyncGenerator[Frame, None]],
    authorize: Callable[[Request], None],
    *,
    keep_alive: float = KEEP_ALIVE_SECONDS,
) -> list[BaseRoute]:
    """Return the routes that add the dashboard to a Starlette application.

    fleet: returns all frames until now; called in a thread, so it may block.
    stream: yields frames later than a time (seconds since 1970) as they come. It is closed when the client disconnects;
        end it to let the server stop.
    authorize: raises HTTPException 401 for a request that may not see the fleet. The page itself is public.
    keep_alive: seconds between keep-alive comments.
    """

    async def get_fleet(request: Request) -> Response:
        authorize(request)
        gzip = "gzip" in request.headers.get("accept-encoding", "")
        body, headers = await asyncio.to_thread(_encode_fleet, fleet, gzip)
        return Response(body, headers=headers, media_type="application/json")

    async def stream_fleet(request: Request) -> Response:
        authorize(request)
        after = _parse_time(request.headers.get("last-event-id") or request.query_params.get("after", "0"))
        return EventSourceResponse(
            _events(stream(after)), ping=keep_alive, sep="\n", shutdown_grace_period=SHUTDOWN_GRACE_SECONDS
        )

    files = _PageFiles(directory=STATIC)
    return [
        Route("/dashboard", files.get_page),
        Mount("/dashboard", files),
        Route("/fleet", get_fleet),
        Route("/fleet/stream", stream_fleet),
    ]


@final
class _PageFiles(StaticFiles):
    """The page's files. ``index.html`` has only the address /dashboard, which its links are relative to."""

    async def get_page(self, request: Request) -> Response:
        return await super().get_response(PAGE, request.scope)

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path == PAGE:
            raise HTTPException(404)
        return await super().get_response(path, scope)

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        if response.status_code == 200:
            response.headers["content-type"] = CONTENT_TYPES[Path(full_path).suffix]
        return response


def _encode_fleet(fleet: Callable[[], Fleet], gzip: bool) -> tuple[bytes, dict[str, str]]:
    body, headers = msgspec.json.encode(fleet()), {"cache-control": "no-store", "vary": "accept-encoding"}
    if gzip and len(body) >= MIN_COMPRESS_BYTES:
        return zlib.compress(body, 1, GZIP), headers | {"content-encoding": "gzip"}
    return body, headers


async def _events(frames: AsyncGenerator[Frame, None]) -> AsyncIterator[dict[str, str]]:
    """Server-sent events, one per frame; its id is the frame's time."""
    async with contextlib.aclosing(frames):
        yield {"comment": "connected"}  # at once, so that the client knows
        async for frame in frames:
            yield {"event": "frame", "id": repr(frame.time), "data": msgspec.json.encode(frame).decode()}


def _parse_time(text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = math.nan
    if math.isnan(time):
        raise HTTPException(400, f"after: found {text[:100]!r}; allowed: seconds since 1970")
    return time
