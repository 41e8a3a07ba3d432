"""The dashboard of a fleet on one's own machine: the page is here, what it shows comes from an edge elsewhere.

So nobody has to give a browser the edge's token, or make it trust the fleet's authority.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Final, final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from alphaedge.dashboard.app import routes
from alphaedge.errors import InvalidValue, Unreachable
from alphaedge.monitoring.client import FleetClient
from alphaedge.monitoring.frames import Fleet, Frame

HOST: Final = "127.0.0.1"  # nobody else's business


def relay(remote: FleetClient, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until told to stop; ready: gets its address."""
    remote.fleet()  # an address or a token that is wrong shows now
    try:
        listening = socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise InvalidValue("port", port, f"a free port ({error})") from None
    application = _Relay(remote)
    settings = uvicorn.Config(application.app, log_config=None, access_log=False, server_header=False)
    server = _Server(settings, application, lambda: ready(f"http://{HOST}:{listening.getsockname()[1]}/dashboard"))
    with contextlib.suppress(KeyboardInterrupt):
        server.run([listening])


@final
class _Relay:
    def __init__(self, remote: FleetClient) -> None:
        self._remote, self.ended = remote, asyncio.Event()

        async def home(_: Request) -> Response:
            return RedirectResponse("/dashboard")

        async def no_answer(_: Request, error: Exception) -> Response:
            return JSONResponse({"error": str(error)}, 502)

        shown = routes(self._fleet, self._stream, _anybody)
        self.app = Starlette(routes=[Route("/", home), *shown], exception_handlers={Unreachable: no_answer})

    def _fleet(self) -> Fleet:
        return self._remote.fleet()

    async def _stream(self, after: float) -> AsyncIterator[Frame]:
        frames = self._remote.stream(after)
        ending = asyncio.create_task(self.ended.wait())
        try:
            while not self.ended.is_set():
                upcoming = asyncio.ensure_future(anext(frames, None))
                await asyncio.wait({upcoming, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not upcoming.done():
                    upcoming.cancel()
                    return
                frame = upcoming.result()
                if frame is None:
                    return
                yield frame
        except Unreachable:
            return  # the page asks again by and by
        finally:
            ending.cancel()


@final
class _Server(uvicorn.Server):
    def __init__(self, settings: uvicorn.Config, relay: _Relay, ready: Callable[[], None]) -> None:
        super().__init__(settings)
        self._relay, self._ready = relay, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._relay.ended.set()
        await super().shutdown(sockets)


def _anybody(_: Request) -> None:
    """This machine's user has shown the token already."""
