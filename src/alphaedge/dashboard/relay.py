"""The dashboard on one's own machine: the page is served here, its data come from an edge elsewhere.

The browser needs neither the edge's token nor trust in the fleet's authority.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable
from typing import Final, final

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from alphaedge.dashboard.routes import dashboard_routes
from alphaedge.errors import InvalidValue, Unreachable
from alphaedge.monitoring.client import FleetClient
from alphaedge.monitoring.frames import Frame

HOST: Final = "127.0.0.1"  # only this machine


def serve_relay(client: FleetClient, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve the page until a signal stops it. port: 0 takes any free one. on_ready: called with the page's URL."""
    client.fetch_fleet()  # a wrong URL or token fails now
    try:
        listener = socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise InvalidValue("port", port, f"a free port ({error})") from None
    relay = _Relay(client)
    config = uvicorn.Config(relay.app, log_config=None, access_log=False, server_header=False)
    server = _Server(config, relay, lambda: on_ready(f"http://{HOST}:{listener.getsockname()[1]}/dashboard"))
    with contextlib.suppress(KeyboardInterrupt):
        server.run([listener])


@final
class _Relay:
    def __init__(self, client: FleetClient) -> None:
        self._client, self.stopping = client, asyncio.Event()

        async def redirect_home(_: Request) -> Response:
            return RedirectResponse("/dashboard")

        async def bad_gateway(_: Request, error: Exception) -> Response:
            return JSONResponse({"error": str(error)}, 502)

        routes = dashboard_routes(client.fetch_fleet, self._stream, _allow_all)
        self.app = Starlette(routes=[Route("/", redirect_home), *routes], exception_handlers={Unreachable: bad_gateway})

    async def _stream(self, after: float) -> AsyncGenerator[Frame, None]:
        with contextlib.suppress(Unreachable):  # the stream ends, and the page connects again
            async with contextlib.aclosing(self._client.stream(after)) as frames:
                while (frame := await self._next(frames)) is not None:
                    yield frame

    async def _next(self, frames: AsyncGenerator[Frame, None]) -> Frame | None:
        """Return the next frame; None at the end of the stream, or when the server stops."""
        upcoming = asyncio.ensure_future(anext(frames, None))
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({upcoming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return upcoming.result() if upcoming.done() else None
        finally:
            upcoming.cancel()
            stopping.cancel()
            with anyio.CancelScope(shield=True):  # frames can't be closed before it has let go of them
                await asyncio.wait({upcoming, stopping})


@final
class _Server(uvicorn.Server):
    """A server that says when it listens, and ends streams before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, relay: _Relay, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._relay, self._on_listening = relay, on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._relay.stopping.set()
        await super().shutdown(sockets)


def _allow_all(_: Request) -> None:
    """The relay shows the token to the edge; the page needs none."""
