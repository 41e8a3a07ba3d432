"""Bodies of requests and answers: read within limits, compressed where that is asked for."""

import asyncio
import contextlib
import zlib
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from alphaedge.errors import InvalidValue

CODINGS: Final[Mapping[str, int]] = {"gzip": 31, "deflate": 15}  # and zlib's name for each
WORTH: Final = 4096  # bytes from which an answer is compressed, for clients that take it
FAST: Final = 1  # zlib's level: on numbers a higher one saves little and costs much
LINGER: Final = 10.0  # seconds for the rest of a body that has been refused already


def header(request: Request, name: str) -> str | None:
    """A header of a request, by its name in small letters: a tenth of the time that ``request.headers`` takes."""
    wanted = name.encode()
    for found, value in request.scope["headers"]:
        if found == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


async def read_body(request: Request, most: int) -> bytes:
    """The whole body, decompressed. It is given up as soon as it is clear that it is too large."""
    told = header(request, "content-length") or "0"
    if not told.isdecimal():
        raise HTTPException(400, f"content-length: found {told!r}; allowed: a number of bytes")
    if len(told) > len(str(most)) or int(told) > most:
        raise TooLarge(most, more=True)
    coding = (header(request, "content-encoding") or "identity").strip().lower()
    if coding not in CODINGS and coding != "identity":
        allowed = ", ".join(CODINGS)
        text = f"content-encoding: found {coding!r}; allowed: {allowed}"
        raise HTTPException(415, text, {"accept-encoding": allowed})
    stream = zlib.decompressobj(CODINGS[coding]) if coding in CODINGS else None
    parts: list[bytes] = []
    arrived, size, more = 0, 0, True
    try:
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise HTTPException(400, "the request ended too early")
            part, more = message.get("body", b""), message.get("more_body", False)
            arrived += len(part)
            parts.append(part if stream is None else stream.decompress(part, most - size + 1))
            size += len(parts[-1])
            if max(arrived, size) > most:
                raise TooLarge(most, more=more)
            if stream is not None and stream.unused_data:
                raise InvalidValue("request", "more bytes", f"nothing behind the end of what is compressed as {coding}")
    except zlib.error as error:
        raise InvalidValue("request", f"{arrived} bytes", f"a body compressed as {coding} ({error})") from None
    if stream is not None and not stream.eof:
        raise InvalidValue("request", f"{arrived} bytes", f"a body compressed as {coding} (this one is cut short)")
    return b"".join(parts)


class TooLarge(HTTPException):
    """A body that is refused. more: whether some of it is still to come."""

    def __init__(self, most: int, *, more: bool) -> None:
        super().__init__(413, f"request: found more than {most} bytes; allowed: at most {most}")
        self.more = more


class Lingering(Response):
    """An answer to a request that is still being sent: what comes is let go by.

    A client that wants the connection closed sends all before it reads anything: were it closed at once, it would see
    a broken pipe, and no answer. Where the connection stays open, the server lets the rest go by anyway.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while (await receive()).get("more_body", False):
                    pass
        await send({"type": "http.response.body", "body": b""})


async def answer_with(request: Request, body: bytes, headers: dict[str, str]) -> Response:
    """An answer, compressed if the client takes that and if it is large enough for that to pay."""
    if len(body) < WORTH:
        return Response(body, headers=headers)
    headers = {**headers, "vary": "accept-encoding"}
    coding = _taken(header(request, "accept-encoding") or "")
    if coding is not None:
        headers["content-encoding"] = coding
        body = await asyncio.to_thread(zlib.compress, body, FAST, CODINGS[coding])
    return Response(body, headers=headers)


def _taken(accepted: str) -> str | None:
    """The compression that a client likes best of those known here, if any."""
    found: dict[str, float] = {}
    for item in accepted.lower().split(","):
        name, _, weight = item.partition(";")
        try:
            found[name.strip()] = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue  # what cannot be understood is not asked for
    best = max(CODINGS, key=lambda name: found.get(name, found.get("*", 0.0)))
    return best if found.get(best, found.get("*", 0.0)) > 0 else None
