"""The serving process: predictions and feedback over HTTP (Open Inference Protocol v2). It never waits for learning."""

import asyncio
import contextlib
import hmac
import traceback
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, final

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from alphaedge.edge.journal import JournalError
from alphaedge.edge.log import warn
from alphaedge.edge.metrics import Measured
from alphaedge.edge.openapi import (
    JSON,
    PATH,
    PLATFORM,
    VERSIONS,
    Feedback,
    Live,
    Ready,
    Refusal,
    ServerMetadata,
    describe,
    metadata,
)
from alphaedge.edge.parameters import ParametersError
from alphaedge.edge.protocol import JSON_LENGTH, Array, parse, respond
from alphaedge.edge.service import Service
from alphaedge.errors import InvalidValue

CODINGS: Final[Mapping[str, int]] = {"gzip": 31, "deflate": 15}  # and zlib's name for each
WORTH: Final = 4096  # bytes from which an answer is compressed, for clients that take it
FAST: Final = 1  # zlib's level: on numbers a higher one saves little and costs much
LINGER: Final = 10.0  # seconds for the rest of a body that has been refused already
MOST_TEXT: Final = 1000  # characters of an error, which may quote what was sent


@final
class Server:
    """One edge's public API. token: what callers must show, if anything."""

    def __init__(self, service: Service, version: str, token: bytes | None = None) -> None:
        self.config, self.version = service.config, version
        self._service, self._token = service, token
        self._description = msgspec.json.encode(describe(self.config, version, token=token is not None))
        model = f"/v2/models/{self.config.model.name}"
        models = (model, *(f"{model}/versions/{number}" for number in VERSIONS))
        self._often = {f"{path}/infer": self._infer for path in models} | {f"{model}/feedback": self._feedback}
        self._rest = Starlette(
            routes=[
                Route("/metrics", self._metrics),
                Route(PATH, self._described),
                Route("/v2", self._server),
                Route("/v2/health/live", self._live),
                Route("/v2/health/ready", self._ready),
                *(Route(path, self._about) for path in models),
                *(Route(f"{path}/ready", self._ready) for path in models),
                *(Route(f"{path}/infer", self._infer, methods=["POST"]) for path in models),
                Route(f"{model}/feedback", self._feedback, methods=["POST"]),
            ],
            exception_handlers=HANDLERS,
            lifespan=self._lifespan,
        )
        self.app = Measured(self._answer, service.metrics)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What comes a thousand times a second goes past the router and its layers; the rest through them."""
        often = self._often.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if often is None:
            await self._rest(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await often(request)
        except Exception as error:
            answer = await next(handle for kind, handle in HANDLERS.items() if isinstance(error, kind))(request, error)
            if answer.status_code == 500:
                warn("an error inside the server", exception="".join(traceback.format_exception(error)))
        await answer(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        tidying = asyncio.create_task(self._service.tidy())
        yield
        tidying.cancel()
        self._service.close()

    async def _metrics(self, request: Request) -> Response:
        self._authorised(request)
        page = await asyncio.to_thread(self._service.metrics.page)
        return await _answer(request, page, {"content-type": CONTENT_TYPE_LATEST})

    async def _described(self, request: Request) -> Response:
        return await _answer(request, self._description, {"content-type": JSON})

    async def _server(self, _: Request) -> Response:
        return _json(ServerMetadata(PLATFORM, self.version, ["binary_tensor_data"]))

    async def _live(self, _: Request) -> Response:
        return _json(Live())

    async def _ready(self, _: Request) -> Response:
        await self._service.ready()
        return _json(Ready(self.config.model.name))

    async def _about(self, _: Request) -> Response:
        return _json(metadata(self.config))

    async def _infer(self, request: Request) -> Response:
        self._authorised(request)
        call = parse(await _body(request, self.config.serve.body), request.headers.get(JSON_LENGTH))
        ids, found = await self._service.predict(call.inputs)
        outputs: dict[str, Array] = {"prediction": found, "prediction_id": np.array(ids, dtype=np.int64)}
        return await _answer(request, *respond(self.config.model.name, VERSIONS[-1], call, outputs))

    async def _feedback(self, request: Request) -> Response:
        self._authorised(request)
        try:
            told = msgspec.json.decode(await _body(request, self.config.serve.body), type=Feedback)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidValue("feedback", "the body", f"ids and labels ({error})") from None
        return _json(await self._service.feedback(told.ids, told.labels))

    def _authorised(self, request: Request) -> None:
        if self._token is None:
            return
        shown = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(shown, b"Bearer " + self._token):
            raise HTTPException(401, "show the token: Authorization: Bearer ...", {"www-authenticate": "Bearer"})


async def _body(request: Request, most: int) -> bytes:
    """The whole body, decompressed. It is given up as soon as it is clear that it is too large."""
    told = request.headers.get("content-length", "0")
    if not told.isdecimal():
        raise HTTPException(400, f"content-length: found {told!r}; allowed: a number of bytes")
    if len(told) > len(str(most)) or int(told) > most:
        raise _TooLarge(most, more=True)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
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
                raise _TooLarge(most, more=more)
            if stream is not None and stream.unused_data:
                raise InvalidValue("request", "more bytes", f"nothing behind the end of what is compressed as {coding}")
    except zlib.error as error:
        raise InvalidValue("request", f"{arrived} bytes", f"a body compressed as {coding} ({error})") from None
    if stream is not None and not stream.eof:
        raise InvalidValue("request", f"{arrived} bytes", f"a body compressed as {coding} (this one is cut short)")
    return b"".join(parts)


class _TooLarge(HTTPException):
    """A body that is refused. more: whether some of it is still to come."""

    def __init__(self, most: int, *, more: bool) -> None:
        super().__init__(413, f"request: found more than {most} bytes; allowed: at most {most}")
        self.more = more


class _Lingering(Response):
    """An answer to a request that is still being sent: what comes is let go by.

    A client that wants the connection closed sends all before it reads anything: were it closed at once, it would see
    a broken pipe, and no answer. Where the connection stays open, the server lets the rest go by anyway.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while (await receive()).get("more_body", False):
                    pass
        await send({"type": "http.response.body", "body": b""})


async def _answer(request: Request, body: bytes, headers: dict[str, str]) -> Response:
    """An answer, compressed if the client takes that and if it is large enough for that to pay."""
    if len(body) < WORTH:
        return Response(body, headers=headers)
    headers = {**headers, "vary": "accept-encoding"}
    coding = _taken(request.headers.get("accept-encoding", ""))
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


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, JSON)


def _refusal(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return _json(Refusal(text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "..."), status, headers)


def _refuse(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(_: Request, error: Exception) -> Response:
        return _refusal(str(error), status)

    return answer


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{error.detail}: {PATH} says what there is" if error.status_code in (404, 405) else error.detail
    answer = _refusal(text, error.status_code, dict(error.headers or {}))
    closes = request.headers.get("connection", "").lower() == "close"
    if isinstance(error, _TooLarge) and error.more and closes:
        return _Lingering(answer.body, error.status_code, dict(answer.headers))
    return answer


async def _unexpected(_: Request, error: Exception) -> Response:
    return _refusal(f"an error inside the server ({type(error).__name__}); its log says more", 500)


HANDLERS: Final[Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]]] = {
    InvalidValue: _refuse(400),
    JournalError: _refuse(503),
    ParametersError: _refuse(503),
    HTTPException: _http_error,
    Exception: _unexpected,
}
