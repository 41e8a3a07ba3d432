"""uvicorn's HTTP protocol with limits: a request must arrive in time, and its head must not be too large.

The head and the body of a response leave together: one system call here, and one on the other side.
"""

import asyncio
from typing import Any, Final, final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 1 << 16
REQUEST_TIMEOUT_SECONDS: Final = 20.0  # for a whole request to arrive, and for a new connection to send one


@final
class CoalescingTransport:
    """A transport that holds the first write back until a second one, or until the event loop's next turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self._flush_soon: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Hold the first write back and send it with the second."""
        self._held.append(data)
        if self._flush_soon is None:
            self._flush_soon = self._loop.call_soon(self._flush)
        else:
            self._flush()

    def close(self) -> None:
        """Send what is held back, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._flush_soon is not None:
            self._flush_soon.cancel()
            data, self._held, self._flush_soon = self._held, [], None
            self._transport.writelines(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@final
class LimitedProtocol(HttpToolsProtocol):
    """One connection, with a time limit for each request and a size limit for its head."""

    _requests = _head_bytes = 0
    _in_head = False
    _timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self.transport: Any = CoalescingTransport(transport, self.loop)
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit."""
        self._cancel_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data; refuse a request whose head is too large."""
        request, was_in_head = self._requests, self._in_head
        super().data_received(data)
        if was_in_head and self._in_head and request == self._requests:  # all of the data belongs to one head
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large", b"a head of more than %d bytes" % MAX_HEAD_BYTES)

    def on_message_begin(self) -> None:
        """Start the limits of a request."""
        super().on_message_begin()
        self._requests, self._head_bytes, self._in_head = self._requests + 1, 0, True
        self._start_timeout()

    def on_headers_complete(self) -> None:
        """Note the end of the head."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Cancel the time limit: the whole request has arrived."""
        super().on_message_complete()
        self._cancel_timeout()

    def _start_timeout(self) -> None:
        self._cancel_timeout()
        self._timeout = self.loop.call_later(REQUEST_TIMEOUT_SECONDS, self._refuse_late)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()

    def _refuse_late(self) -> None:
        self._refuse(b"408 Request Timeout", b"a request must arrive within %d seconds" % REQUEST_TIMEOUT_SECONDS)

    def _refuse(self, status: bytes, reason: bytes) -> None:
        if self.transport.is_closing():
            return
        body = b'{"error":"%s"}' % reason
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close" % len(body)
        self.transport.write(b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, head, body))
        self.transport.close()
