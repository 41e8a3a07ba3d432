"""uvicorn's HTTP protocol with limits: a request must arrive in time, its answer must be read, its head must be small.

The head and the body of a response leave together: one system call here, and one on the other side.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from alphaedge.edge.serving.limits import Reason

MAX_HEAD_BYTES: Final = 1 << 15
HEAD_TOO_LARGE: Final = b"a head of more than %d bytes" % MAX_HEAD_BYTES
MAX_HEADERS: Final = 100
MAX_PIPELINED: Final = 32  # requests on one connection that wait for the answer to an earlier one
MAX_DISCARDED_BYTES: Final = 1 << 24  # of a body that was refused already, before the connection is closed
REQUEST_TIMEOUT_SECONDS: Final = 20.0  # for a whole request to arrive, and for a new connection to send one
READ_TIMEOUT_SECONDS: Final = 20.0  # for a client that has stopped reading its answer to go on


class _Refused(Exception):
    """Ends the parsing of a request that was refused."""


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
    """One connection. note: counts what is refused. lost: called when the connection has ended."""

    def __init__(self, *args: Any, note: Callable[[Reason], None], lost: Callable[[], None], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._note, self._lost = note, lost
        self._requests = self._head_bytes = self._unparsed_bytes = self._discarded = 0
        self._in_head = False
        self._timeout: asyncio.TimerHandle | None = None
        self._read_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self.transport: Any = CoalescingTransport(transport, self.loop)
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits."""
        self._cancel_timeout()
        self.resume_writing()
        super().connection_lost(exc)
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Parse data; refuse a request that is malformed or whose head is too large."""
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        request, was_in_head = self._requests, self._in_head
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # to a protocol that the server does not have: it answers as if nobody had asked
        except httptools.HttpParserError as error:
            if not isinstance(error.__context__, _Refused):
                self._refuse(b"400 Bad Request", b"not an HTTP request", "malformed")
            return
        if was_in_head and self._in_head and request == self._requests:  # all of it is in one head, or in one header
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large", HEAD_TOO_LARGE, "head")

    def on_message_begin(self) -> None:
        """Start the limits of a request."""
        super().on_message_begin()
        self._requests += 1
        self._head_bytes = self._unparsed_bytes = self._discarded = 0
        self._in_head = True
        self._start_timeout()

    def on_url(self, url: bytes) -> None:
        """Note a part of the URL."""
        self._head_bytes += len(url)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head(HEAD_TOO_LARGE)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head(HEAD_TOO_LARGE)
        if len(self.headers) == MAX_HEADERS:
            self._refuse_head(b"more than %d headers" % MAX_HEADERS)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note the end of the head."""
        self._in_head = False
        if len(self.pipeline) == MAX_PIPELINED:
            self._refuse(b"429 Too Many Requests", b"more than %d requests without an answer" % MAX_PIPELINED, "rate")
            raise _Refused
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note a part of the body."""
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > MAX_DISCARDED_BYTES:
                self.transport.abort()
                raise _Refused
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Cancel the time limit: the whole request has arrived."""
        super().on_message_complete()
        self._cancel_timeout()

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read its answer."""
        super().pause_writing()
        self._read_timeout = self.loop.call_later(READ_TIMEOUT_SECONDS, self._refuse_unread)

    def resume_writing(self) -> None:
        """Cancel that time limit."""
        if self._read_timeout is not None:
            self._read_timeout.cancel()
            self._read_timeout = None
        if self.flow is not None:
            super().resume_writing()

    def _refuse_head(self, reason: bytes) -> None:
        self._refuse(b"431 Request Header Fields Too Large", reason, "head")
        raise _Refused

    def _start_timeout(self) -> None:
        self._cancel_timeout()
        self._timeout = self.loop.call_later(REQUEST_TIMEOUT_SECONDS, self._refuse_late)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _refuse_late(self) -> None:
        text = b"a request must arrive within %d seconds" % REQUEST_TIMEOUT_SECONDS
        self._refuse(b"408 Request Timeout", text, "time")

    def _refuse_unread(self) -> None:
        self._note("time")
        self.transport.abort()

    def _refuse(self, status: bytes, text: bytes, reason: Reason) -> None:
        if self.transport.is_closing():
            return
        self._note(reason)
        if self._in_head or self.cycle is None or not self.cycle.response_started:
            self.transport.write(refusal(status, text))
        self.transport.close()


def refusal(status: bytes, text: bytes) -> bytes:
    """A whole response that refuses a request and closes the connection."""
    body = b'{"error":"%s"}' % text
    headers = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close" % len(body)
    if status[:3] in (b"429", b"503"):
        headers += b"\r\nretry-after: 1"
    return b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, headers, body)
