"""HTTP as uvicorn speaks it, but not for ever: requests whose head is endless or that never come to an end are cut.

And an answer's head and body leave together: one call of the kernel here, and one on the other side.
"""

import asyncio
from typing import Any, Final, final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD: Final = 1 << 16  # bytes of a request before its body
PATIENCE: Final = 20.0  # seconds that a request may take to arrive


@final
class CoalescingTransport:
    """A transport that keeps what is written until more comes, or until the loop has nothing else to do first."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._kept: list[bytes] = []
        self._later: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Keep the first, send it with the second."""
        self._kept.append(data)
        if self._later is None:
            self._later = self._loop.call_soon(self._send)
        else:
            self._send()

    def close(self) -> None:
        """Send what is kept, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._later is not None:
            self._later.cancel()
            data, self._kept, self._later = self._kept, [], None
            self._transport.writelines(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@final
class LimitedProtocol(HttpToolsProtocol):
    """One connection. A request has so long to arrive as a whole; who says nothing at all has as long."""

    _begun = _head = 0
    _in_head = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.transport: Any = CoalescingTransport(transport, self.loop)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head of a request has gone on for too long."""
        before = (self._begun, True)
        inside = self._in_head
        super().data_received(data)
        if inside and before == (self._begun, self._in_head):  # nothing but head, and of one request
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._refuse(b"431 Request Header Fields Too Large", b"a head of more than %d bytes" % LONGEST_HEAD)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._begun, self._head, self._in_head = self._begun + 1, 0, True
        self._wait()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is there."""
        super().on_message_complete()
        self._stop_waiting()

    def _wait(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(PATIENCE, self._too_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _too_late(self) -> None:
        self._refuse(b"408 Request Timeout", b"a request must arrive within %d seconds" % PATIENCE)

    def _refuse(self, status: bytes, reason: bytes) -> None:
        if self.transport.is_closing():
            return
        body = b'{"error":"%s"}' % reason
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close" % len(body)
        self.transport.write(b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, head, body))
        self.transport.close()
