"""Accepts connections of callers, within limits that hold before anything is read or decrypted."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, final

from alphaedge.edge.serving.limits import Budget, Reason, caller_at
from alphaedge.edge.serving.protocol import refusal
from alphaedge.edge.transport.listening import accept_forever, open_sockets

BACKLOG: Final = 1024
HANDSHAKE_SECONDS: Final = 10.0
SHUTDOWN_SECONDS: Final = 1.0
TOO_MANY: Final = refusal(b"429 Too Many Requests", b"too many connections from this address")
FULL: Final = refusal(b"503 Service Unavailable", b"too many connections")

MakeProtocol = Callable[[Callable[[Reason], None], Callable[[], None]], asyncio.Protocol]
"""Makes the protocol of a connection. Gets what counts a refusal, and what to call when the connection has ended."""


@final
class Listener:
    """Listens on one port, with the methods of ``asyncio.Server`` that uvicorn calls.

    make_protocol: for each connection. context: for TLS; None without. connections: how many there may be. note:
    counts a refusal, by its reason and caller.
    """

    def __init__(
        self,
        make_protocol: MakeProtocol,
        context: ssl.SSLContext | None,
        connections: Budget,
        note: Callable[[Reason, str], None],
    ) -> None:
        self._make_protocol, self._context, self._connections, self._note = make_protocol, context, connections, note
        self.sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        self.sockets = await open_sockets(host, port, BACKLOG)
        self._accepting = [asyncio.create_task(accept_forever(listening, self._open)) for listening in self.sockets]

    def close(self) -> None:
        """Stop listening; end the handshakes."""
        self._closed = True
        for task in self._accepting:
            task.cancel()
        if self._context is not None:  # without TLS there is nothing to wait for, and uvloop, when cancelled, would
            for task in self._handshakes:  # end a connection without telling its protocol: uvicorn would wait for it
                task.cancel()
        for listening in self.sockets:
            listening.close()

    async def wait_closed(self) -> None:
        """Wait until nothing is being accepted any more."""
        await asyncio.gather(*self._accepting, *self._handshakes, return_exceptions=True)

    def _open(self, accepted: socket.socket, address: str) -> None:
        caller = caller_at(address)
        if not self._connections.take(caller):
            self._note("connections", caller)
            plain = FULL if self._connections.is_used_up else TOO_MANY
            _refuse(accepted, None if self._context is not None else plain)
            return
        task = asyncio.create_task(self._connect(accepted, caller))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _connect(self, accepted: socket.socket, caller: str) -> None:
        place = [caller]  # taken from the budget, until the connection has ended

        def leave() -> None:
            if place:
                self._connections.give_back(place.pop())

        def make() -> asyncio.Protocol:
            return self._make_protocol(lambda reason: self._note(reason, caller), leave)

        limits: dict[str, Any] = {}
        if self._context is not None:
            limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        try:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(make, accepted, ssl=self._context, **limits)
            if self._closed:  # uvicorn has asked the connections to close before this one was there
                transport.close()
        except BaseException as error:
            accepted.close()
            leave()
            if not isinstance(error, OSError | MemoryError):  # the client's handshake failed, or took too long
                raise


def _refuse(accepted: socket.socket, response: bytes | None) -> None:
    try:
        if response is not None:
            accepted.send(response)
    except OSError:
        pass
    finally:
        accepted.close()
