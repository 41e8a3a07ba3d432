"""The port for other edges: HTTPS with certificates on both ends. Who shows none of the fleet does not get in.

What can be asked is a table of names and handlers: the model, and whatever the directory needs. A large answer is kept
for a while, so that one that breaks off can be asked for again from where it broke off.
"""

import hashlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, final

from aiohttp import web

from alphaedge.edge.trust.certificates import Identity
from alphaedge.edge.trust.credentials import Credentials
from alphaedge.errors import (
    AlphaEdgeError,
    BadPeerRequest,
    CertificateError,
    KeyListForgotten,
    ModelRefused,
    PeerForbidden,
)

LARGEST_REQUEST: Final = 500_000_000  # bytes
LARGE: Final = 1 << 16  # answers of at least so many bytes can be asked for again
KEPT_ANSWERS: Final = 32

Handler = Callable[[Identity, bytes], Awaitable[bytes]]
"""The answer to what an edge asks; some errors have a status of their own (``STATUS``)."""


STATUS: Final[Mapping[type[AlphaEdgeError], type[web.HTTPException]]] = {
    PeerForbidden: web.HTTPForbidden,
    ModelRefused: web.HTTPConflict,
    KeyListForgotten: web.HTTPGone,
    BadPeerRequest: web.HTTPBadRequest,
}


@final
class PeerServer:
    """Answers other edges; ``handlers`` by what is asked for."""

    def __init__(self, trust: Credentials) -> None:
        self._trust = trust
        self.handlers: dict[str, Handler] = {}
        self._kept: dict[str, tuple[str, bytes]] = {}  # token -> for whom, answer
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port."""
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_post("/peer/{what}", self._ask)
        app.router.add_get("/peer/again/{token}", self._again)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        context = self._trust.context(ssl.Purpose.CLIENT_AUTH)
        site = web.TCPSite(self._runner, host, port, ssl_context=context)
        await site.start()
        listening: Any = site._server
        return int(listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _sender(self, request: web.Request) -> Identity:
        tls: Any = request.transport and request.transport.get_extra_info("ssl_object")
        try:
            return self._trust.identify(tls.getpeercert(binary_form=True) if tls else None, request.headers)
        except CertificateError as error:
            raise web.HTTPForbidden(text=str(error)) from None

    async def _ask(self, request: web.Request) -> web.Response:
        sender = self._sender(request)
        handler = self.handlers.get(request.match_info["what"])
        if handler is None:
            raise web.HTTPNotFound(text="allowed: " + ", ".join(self.handlers))
        try:
            data = await handler(sender, await request.read())
        except AlphaEdgeError as error:
            raise STATUS.get(type(error), web.HTTPInternalServerError)(text=str(error)) from None
        if len(data) < LARGE:
            return web.Response(body=data)
        token = hashlib.blake2b(data + sender.edge.encode(), digest_size=16).hexdigest()
        self._kept[token] = (sender.edge, data)
        while len(self._kept) > KEPT_ANSWERS:
            del self._kept[next(iter(self._kept))]
        return web.Response(body=data, headers={"etag": token})

    async def _again(self, request: web.Request) -> web.Response:
        """The rest of an answer that broke off."""
        sender = self._sender(request)
        to, data = self._kept.get(request.match_info["token"], ("", b""))
        start = request.query.get("from", "")
        if to != sender.edge or not start.isdigit() or int(start) > len(data):
            raise web.HTTPNotFound(text="there is no such answer any more")
        return web.Response(body=data[int(start) :])
