"""The serving process: predictions and feedback over HTTP (Open Inference Protocol v2). It never waits for learning."""

import asyncio
import contextlib
import hmac
import time
import traceback
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

from alphaedge.dashboard.app import dashboard_routes
from alphaedge.edge.log import warn
from alphaedge.edge.serving.body import Lingering, TooLarge, answer_with, header, read_body
from alphaedge.edge.serving.fleet_view import FleetView
from alphaedge.edge.serving.openapi import (
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
from alphaedge.edge.serving.service import Service
from alphaedge.errors import InvalidValue, JournalError, ParametersError
from alphaedge.inference.server_codec import encode_response, parse_request
from alphaedge.inference.tensors import JSON_LENGTH_HEADER, Array

Handler = Callable[[Request], Awaitable[Response]]
MOST_TEXT: Final = 1000  # characters of an error, which may quote what was sent


@final
class Server:
    """One edge's public API. token: what callers must show, if anything."""

    def __init__(self, service: Service, version: str, token: bytes | None = None) -> None:
        self.config, self.version = service.config, version
        self._service, self._token = service, token
        self._view = FleetView(self.config.edge, service.data, service.metrics.lately, time.time)
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
                *dashboard_routes(self._view.fleet, self._view.stream, self._authorised),
            ],
            exception_handlers=HANDLERS,
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        often = self._often.get(scope["path"]) if scope["method"] == "POST" else None
        try:
            status = await (self._answer(often, scope, receive, send) if often else self._routed(scope, receive, send))
        finally:
            self._service.metrics.answered(scope["path"].rpartition("/")[2], status, time.perf_counter() - began)

    async def end(self) -> None:
        """Let go of those who listen for news: the server would wait for them."""
        await self._view.end()

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer by way of the router; the status."""
        status = 500

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self._rest(scope, receive, sent)
        return status

    async def _answer(self, often: Handler, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer what comes a thousand times a second, past the router and its layers; the status."""
        request = Request(scope, receive)
        try:
            answer = await often(request)
        except Exception as error:
            answer = await next(handle for kind, handle in HANDLERS.items() if isinstance(error, kind))(request, error)
            if answer.status_code == 500:
                warn("an error inside the server", exception="".join(traceback.format_exception(error)))
        await answer(scope, receive, send)
        return answer.status_code

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        beside = [asyncio.create_task(self._service.tidy()), asyncio.create_task(self._view.watch())]
        yield
        for task in beside:
            task.cancel()
        self._service.close()

    async def _metrics(self, request: Request) -> Response:
        self._authorised(request)
        page = await asyncio.to_thread(self._service.metrics.page)
        return await answer_with(request, page, {"content-type": CONTENT_TYPE_LATEST})

    async def _described(self, request: Request) -> Response:
        return await answer_with(request, self._description, {"content-type": JSON})

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
        call = parse_request(await read_body(request, self.config.serve.max_body_bytes), header(request, JSON_LENGTH_HEADER))
        ids, found = await self._service.predict(call.inputs)
        outputs: dict[str, Array] = {"prediction": found, "prediction_id": np.array(ids, dtype=np.int64)}
        return await answer_with(request, *encode_response(self.config.model.name, VERSIONS[-1], call, outputs))

    async def _feedback(self, request: Request) -> Response:
        self._authorised(request)
        try:
            told = msgspec.json.decode(await read_body(request, self.config.serve.max_body_bytes), type=Feedback)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidValue("feedback", "the body", f"ids and labels ({error})") from None
        return _json(await self._service.feedback(told.ids, told.labels))

    def _authorised(self, request: Request) -> None:
        if self._token is None:
            return
        shown = (header(request, "authorization") or "").encode("latin-1")
        if not hmac.compare_digest(shown, b"Bearer " + self._token):
            raise HTTPException(401, "show the token: Authorization: Bearer ...", {"www-authenticate": "Bearer"})


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
    closes = (header(request, "connection") or "").lower() == "close"
    if isinstance(error, TooLarge) and error.more and closes:
        return Lingering(answer.body, error.status_code, dict(answer.headers))
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
