"""The port for other edges: HTTPS with certificates on both ends. Only edges of the fleet can connect.

A table maps endpoints to handlers: the model, and what the directory needs. A large answer is kept for a while, so that
a client whose connection broke can ask for the rest of it.
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

MAX_REQUEST_BYTES: Final = 500_000_000
MIN_RESUMABLE_BYTES: Final = 1 << 16  # shorter answers are simply asked for again
MAX_RESUMABLE_ANSWERS: Final = 32

Handler = Callable[[Identity, bytes], Awaitable[bytes]]
"""Returns the answer to a request of an edge. Errors of ``STATUS_BY_ERROR`` have a status of their own."""

STATUS_BY_ERROR: Final[Mapping[type[AlphaEdgeError], type[web.HTTPException]]] = {
    PeerForbidden: web.HTTPForbidden,
    ModelRefused: web.HTTPConflict,
    KeyListForgotten: web.HTTPGone,
    BadPeerRequest: web.HTTPBadRequest,
}


@final
class PeerServer:
    """Answers the requests of other edges. handlers: by endpoint; may be added to after the start."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.handlers: dict[str, Handler] = {}
        self._resumable: dict[str, tuple[str, bytes]] = {}  # token -> (edge it is for, answer)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port, which the system chooses if ``port`` is 0."""
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_post("/peer/{endpoint}", self._answer)
        app.router.add_get("/peer/again/{token}", self._resume)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        context = self._credentials.ssl_context(ssl.Purpose.CLIENT_AUTH)
        site = web.TCPSite(self._runner, host, port, ssl_context=context)
        await site.start()
        server: Any = site._server
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _identify(self, request: web.Request) -> Identity:
        tls: Any = request.transport and request.transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls else None
        try:
            return self._credentials.identify(certificate, request.headers)
        except CertificateError as error:
            raise web.HTTPForbidden(text=str(error)) from None

    async def _answer(self, request: web.Request) -> web.Response:
        sender = self._identify(request)
        endpoint = request.match_info["endpoint"]
        handler = self.handlers.get(endpoint)
        if handler is None:
            raise web.HTTPNotFound(text=f"no endpoint {endpoint!r}; allowed: " + ", ".join(self.handlers))
        try:
            answer = await handler(sender, await request.read())
        except AlphaEdgeError as error:
            raise STATUS_BY_ERROR.get(type(error), web.HTTPInternalServerError)(text=str(error)) from None
        if len(answer) < MIN_RESUMABLE_BYTES:
            return web.Response(body=answer)
        token = hashlib.blake2b(answer + sender.edge.encode(), digest_size=16).hexdigest()
        self._resumable[token] = (sender.edge, answer)
        while len(self._resumable) > MAX_RESUMABLE_ANSWERS:
            del self._resumable[next(iter(self._resumable))]
        return web.Response(body=answer, headers={"etag": token})

    async def _resume(self, request: web.Request) -> web.Response:
        """Send the rest of an answer, only to the edge that the answer was for."""
        sender = self._identify(request)
        receiver, answer = self._resumable.get(request.match_info["token"], ("", b""))
        start = request.query.get("from", "")
        if receiver != sender.edge or not start.isdigit() or int(start) > len(answer):
            raise web.HTTPNotFound(text="no such answer is kept; ask for it again")
        return web.Response(body=answer[int(start) :])
