"""Accepts connections of other edges, within limits that hold before anything is read or decrypted.

A connection must finish its handshake in time. When there are too many, one is closed for each new one: see
``connections``. When the process has no descriptor or memory left, connections wait in the system's queue.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from alphaedge.edge.log import warn
from alphaedge.edge.transport.connections import ConnectionTable
from alphaedge.edge.transport.limit_hits import UNIDENTIFIED, Limit
from alphaedge.edge.transport.listening import accept_forever, open_sockets
from alphaedge.rate_limit import RateLimiter

HANDSHAKE_SECONDS: Final = 10.0
SHUTDOWN_SECONDS: Final = 1.0
IDLE_SECONDS: Final = (
    30.0  # until a whole head has arrived; longer than a client keeps a connection that it does not use
)
NEW_PER_SECOND: Final = 50.0  # new connections from one address, which may have several edges
NEW_AT_ONCE: Final = 200.0
BACKLOG: Final = 128
MAX_HEADERS: Final = 64

NoteLimit = Callable[[str, Limit], None]
"""Counts a hit of a limit by a member."""


@final
class PeerConnection(web.RequestHandler):
    """One connection. It says when it is lost, and answers a head that is too large with 431."""

    def __init__(
        self, server: web.Server, lost: Callable[["PeerConnection"], None], note_head: Callable[[], None]
    ) -> None:
        settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": IDLE_SECONDS,
            "lingering_time": 0.0,
            "max_headers": MAX_HEADERS,
        }
        super().__init__(server, loop=asyncio.get_running_loop(), **settings)
        self._lost, self._note_head = lost, note_head

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the listener."""
        super().connection_lost(exc)
        self._lost(self)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is not HTTP, without a traceback in the log for each."""
        if request.writer.output_size > 0:
            raise ConnectionError("the connection broke in the middle of an answer")
        if isinstance(exc, LineTooLong) or "Too many headers" in str(exc):
            self._note_head()
            status = 431
        elif status >= 500 and not isinstance(exc, ConnectionError):
            warn("peer_request_failed", reason=repr(exc))
        response = web.Response(status=status, text=message)
        response.force_close()
        return response

    def abort(self) -> None:
        """Close the connection at once."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()


@final
class Listener:
    """Listens on one port. server: answers the requests. identify: names the member behind a certificate (DER).

    context: for TLS; None without. note: counts what is refused. max_connections: open at once.
    """

    def __init__(
        self,
        server: web.Server,
        context: ssl.SSLContext | None,
        identify: Callable[[bytes | None], str | None],
        note: NoteLimit,
        max_connections: int,
    ) -> None:
        self._server, self._context, self._identify, self._note = server, context, identify, note
        self.table = ConnectionTable[PeerConnection](max_connections)
        self._new = RateLimiter[str](NEW_PER_SECOND, NEW_AT_ONCE)
        self._handshakes: dict[PeerConnection, tuple[socket.socket, asyncio.Task[None]]] = {}
        self._accepting: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port, which the system chooses if ``port`` is 0."""
        self._sockets = await open_sockets(host, port, BACKLOG)
        self._accepting = [asyncio.create_task(accept_forever(listening, self._open)) for listening in self._sockets]
        return int(self._sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        handshakes = list(self._handshakes.values())
        for accepted, _ in handshakes:
            _end(accepted)
        await asyncio.gather(*(task for _, task in handshakes), return_exceptions=True)
        await self._server.shutdown(SHUTDOWN_SECONDS)

    def identified(self, connection: PeerConnection, member: str) -> None:
        """Note whose connection it is: a member may not have too many."""
        self._close(self.table.identify(connection, member))

    def disconnect(self, member: str) -> None:
        """Close all connections of a member, at once."""
        for connection in self.table.of_member(member):
            connection.abort()

    def disconnect_refused(self) -> None:
        """Close the connections of members whose certificates are refused by now, at once."""
        for connection in self.table:
            tls: Any = connection.transport and connection.transport.get_extra_info("ssl_object")
            if tls and self._identify(tls.getpeercert(binary_form=True)) is None:
                connection.abort()

    def _open(self, accepted: socket.socket, address: str) -> None:
        if self._new.take(address, asyncio.get_running_loop().time()):
            accepted.close()
            self._note(UNIDENTIFIED, "connections")
            return

        def note_head() -> None:
            self._note(self.table.owner(connection) or UNIDENTIFIED, "head")

        connection = PeerConnection(self._server, self.table.remove, note_head)
        self._close(self.table.add(connection, address))
        task = asyncio.create_task(self._shake_hands(connection, accepted))
        self._handshakes[connection] = (accepted, task)
        task.add_done_callback(lambda _: self._handshakes.pop(connection, None))

    async def _shake_hands(self, connection: PeerConnection, accepted: socket.socket) -> None:
        limits: dict[str, Any] = {}
        if self._context is not None:
            limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._context, **limits)
        except (OSError, MemoryError):  # no certificate of the fleet, too slow, closed for another, or gone
            accepted.close()
            self.table.remove(connection)
            return
        tls: Any = transport.get_extra_info("ssl_object")
        member = self._identify(tls.getpeercert(binary_form=True)) if tls else None
        if member is not None:
            self.identified(connection, member)

    def _close(self, connection: PeerConnection | None) -> None:
        if connection is None:
            return
        self._note(self.table.owner(connection) or UNIDENTIFIED, "connections")
        self.table.remove(connection)
        if connection in self._handshakes:
            _end(self._handshakes[connection][0])
        connection.abort()


def _end(accepted: socket.socket) -> None:
    """End a connection whose handshake is under way. Its transport notices, and closes the socket."""
    with contextlib.suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)
