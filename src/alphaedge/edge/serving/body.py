"""Bodies of requests and responses: limited in size, compressed where the client asks for it."""

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from alphaedge.edge.config import ServeConfig
from alphaedge.edge.serving.protocol import MAX_DISCARDED_BYTES
from alphaedge.edge.serving.refusals import LimitReached
from alphaedge.errors import InvalidValue

OnStart = tuple[int, Callable[[bytes], None]]
"""A number of bytes, and a function to call with the first so many of a body as soon as they have arrived."""
CODINGS: Final[Mapping[str, int]] = {"gzip": 31, "deflate": 15}  # and the window bits by which zlib knows each
MIN_COMPRESS_BYTES: Final = 4096
COMPRESSION_LEVEL: Final = 1  # on numbers a higher one saves little and costs much
DECOMPRESS_BYTES: Final = 1 << 18  # at once
DISCARD_SECONDS: Final = 10.0  # for the rest of a body that was refused already


def get_header(request: Request, name: str) -> str | None:
    """Return a header by its lower-case name, in a tenth of the time that ``request.headers`` takes."""
    wanted = name.encode()
    for key, value in request.scope["headers"]:
        if key == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


@final
class BodyLimit(NamedTuple):
    """The most bytes of a body, also after decompression. kind: of a body that has a limit of its own."""

    bytes: int
    setting: str
    kind: str = "a body"

    def exceeded(self) -> LimitReached:
        """The error that refuses a larger body."""
        text = f"request: found {self.kind} of more than {self.bytes} bytes"
        return LimitReached(413, f"{text}; allowed: at most {self.bytes} (serve.{self.setting})", "body")


@final
class BodyHead(NamedTuple):
    """What the head of a request says about its body. expected: the most bytes that may come. coding: of the body."""

    limit: BodyLimit
    expected: int
    coding: str


def check_head(request: Request, serve: ServeConfig, *, binary: bool) -> BodyHead:
    """Check what the head says about the body. binary: the body has tensors as bytes, and is not all JSON."""
    coding = (get_header(request, "content-encoding") or "identity").strip().lower()
    if coding not in CODINGS and coding != "identity":
        allowed = ", ".join(CODINGS)
        text = f"content-encoding: found {coding!r}; allowed: {allowed}"
        raise LimitReached(415, text, "encoding", {"accept-encoding": allowed})
    limit = BodyLimit(serve.max_body_bytes, "max_body_bytes")
    if serve.max_json_bytes < serve.max_body_bytes and not (binary and coding == "identity"):
        kind = "JSON" if coding == "identity" else "a compressed body"
        limit = BodyLimit(serve.max_json_bytes, "max_json_bytes", kind)
    length = get_header(request, "content-length")
    if length is not None and not length.isdecimal():
        raise HTTPException(400, f"content-length: found {length!r}; allowed: a number of bytes")
    if length is not None and (len(length) > len(str(limit.bytes)) or int(length) > limit.bytes):
        raise limit.exceeded()
    if length is None and get_header(request, "transfer-encoding") is None:
        return BodyHead(limit, 0, coding)
    return BodyHead(limit, limit.bytes if length is None or coding in CODINGS else int(length), coding)


async def read_body(request: Request, head: BodyHead, on_start: OnStart | None = None) -> bytearray:
    """Read and decompress the whole body; stop as soon as it is clear that it is too large."""
    limit, coding = head.limit.bytes, head.coding
    stream = zlib.decompressobj(CODINGS[coding]) if coding in CODINGS else None
    body = bytearray()
    received, more = 0, True
    try:
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise HTTPException(400, "the client disconnected before the end of the body")
            part, more = message.get("body", b""), message.get("more_body", False)
            received += len(part)
            if received > limit:
                raise head.limit.exceeded()
            if stream is None:
                body += part
            while stream is not None and part:
                body += stream.decompress(part, min(DECOMPRESS_BYTES, limit - len(body) + 1))
                part = stream.unconsumed_tail
                if len(body) > limit:
                    raise head.limit.exceeded()
                if part:
                    await asyncio.sleep(0)  # a small part may become a large one
            if stream is not None and stream.unused_data:
                raise InvalidValue("request", "more bytes", f"no bytes after the end of the {coding} data")
            if on_start is not None and len(body) >= on_start[0]:
                on_start[1](bytes(body[: on_start[0]]))
                on_start = None
    except zlib.error as error:
        raise InvalidValue("request", f"{received} bytes", f"a body compressed as {coding} ({error})") from None
    if stream is not None and not stream.eof:
        raise InvalidValue("request", f"{received} bytes", f"a body compressed as {coding} (this one is cut off)")
    return body


@final
class ReceivedParts:
    """The parts of a request's body as they are received (ASGI). more: whether there are others to come."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self.more = receive, True

    async def __call__(self) -> Message:
        """Receive the next part."""
        message = await self._receive()
        self.more = bool(message.get("more_body", False))
        return message

    async def discard(self) -> None:
        """Receive the rest and discard it, unless it is very large or takes long."""
        left = MAX_DISCARDED_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while self.more and left > 0:
                    left -= len((await self()).get("body", b""))


async def send_refusal(response: Response, scope: Scope, parts: ReceivedParts, send: Send) -> None:
    """Send a response to a request that may still be arriving, and discard the rest of the request before it ends.

    A client that wants the connection closed sends everything before it reads. If the server closed at once, the client
    would see a broken pipe instead of the response. On a connection that stays open, the server discards the rest
    anyway.
    """
    closes = any(name == b"connection" and value.lower() == b"close" for name, value in scope["headers"])
    if not (parts.more and closes):
        await response(scope, parts, send)
        return
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    await parts.discard()
    await send({"type": "http.response.body", "body": b""})


async def make_response(request: Request, body: bytes, headers: dict[str, str]) -> Response:
    """Make a response, compressed if it is large and the client accepts it."""
    if len(body) < MIN_COMPRESS_BYTES:
        return Response(body, headers=headers)
    headers = {**headers, "vary": "accept-encoding"}
    coding = _choose_coding(get_header(request, "accept-encoding") or "")
    if coding is not None:
        headers["content-encoding"] = coding
        body = await asyncio.to_thread(zlib.compress, body, COMPRESSION_LEVEL, CODINGS[coding])
    return Response(body, headers=headers)


def _choose_coding(accepted: str) -> str | None:
    """Return the supported coding that an Accept-Encoding header prefers, if any."""
    weights: dict[str, float] = {}
    for item in accepted.lower().split(","):
        name, _, weight = item.partition(";")
        try:
            weights[name.strip()] = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue  # a weight that can't be parsed
    best = max(CODINGS, key=lambda name: weights.get(name, weights.get("*", 0.0)))
    return best if weights.get(best, weights.get("*", 0.0)) > 0 else None
