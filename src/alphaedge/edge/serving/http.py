"""The public HTTP API of an edge: the Open Inference Protocol v2, feedback, metrics and the dashboard."""

import asyncio
import contextlib
import hmac
import math
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, final

import msgspec
import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from alphaedge.dashboard.routes import dashboard_routes
from alphaedge.edge.log import warn
from alphaedge.edge.serving.answers import ERROR_HANDLERS, json_answer, limit_of, refuse
from alphaedge.edge.serving.body import OnStart, ReceivedParts, get_header, make_response, read_body, send_refusal
from alphaedge.edge.serving.body import check_head as check_body_head
from alphaedge.edge.serving.fleet_view import FleetView
from alphaedge.edge.serving.limits import SMALL_BODY_BYTES, TOKEN_CALLER, CallerLimits, Reason, caller_at
from alphaedge.edge.serving.messages import Links, Live, Ready, ServerMetadata
from alphaedge.edge.serving.openapi import JSON, OUTPUTS, PATH, PLATFORM, VERSIONS, describe, model_metadata
from alphaedge.edge.serving.refusals import LimitReached, Refusals
from alphaedge.edge.serving.service import PredictionService
from alphaedge.errors import InvalidValue, RequestTooLarge
from alphaedge.inference.feedback import Feedback
from alphaedge.inference.server_codec import (
    RequestLimits,
    check_head,
    check_outputs,
    encode_response,
    parse_in_steps,
    read_json_length,
)
from alphaedge.inference.tensor_values import TensorHead
from alphaedge.inference.tensors import JSON_LENGTH_HEADER, Array
from alphaedge.steps import run_in_slices

Handler = Callable[[Request], Awaitable[Response]]


@final
class EdgeApp:
    """The public API of one edge, an ASGI application. token: what callers must send, if anything.

    limits: of its callers; those of the configuration if not given.
    """

    def __init__(
        self,
        service: PredictionService,
        version: str,
        token: bytes | None = None,
        limits: CallerLimits | None = None,
    ) -> None:
        self.config, self.version = service.config, version
        self._service, self._token = service, token
        self.limits = limits or CallerLimits(self.config.serve)
        self.refusals = Refusals(service.metrics.count_refused, time.monotonic)
        serve = self.config.serve
        self._request_limits = RequestLimits(serve.max_examples, serve.max_body_bytes, serve.max_json_bytes)
        self._view = FleetView(self.config.edge, service.data, service.metrics.server_status, time.time)
        self._description = msgspec.json.encode(describe(self.config, version, token=token is not None))
        model = f"/v2/models/{self.config.model.name}"
        models = (model, *(f"{model}/versions/{number}" for number in VERSIONS))
        self._fast_routes = {f"{path}/infer": self._infer for path in models} | {f"{model}/feedback": self._feedback}
        self._app = Starlette(
            routes=[
                Route("/", self._get_links),
                Route("/metrics", self._get_metrics),
                Route(PATH, self._get_description),
                Route("/v2", self._get_server),
                Route("/v2/health/live", self._check_live),
                Route("/v2/health/ready", self._check_ready),
                *(Route(path, self._get_model) for path in models),
                *(Route(f"{path}/ready", self._check_ready) for path in models),
                *(Route(f"{path}/infer", self._infer, methods=["POST"]) for path in models),
                Route(f"{model}/feedback", self._feedback, methods=["POST"]),
                *dashboard_routes(self._view.fleet, self._view.stream, self._authorize),
            ],
            exception_handlers=ERROR_HANDLERS,
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI), and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        endpoint = scope["path"].rpartition("/")[2]
        fast = self._fast_routes.get(scope["path"]) if scope["method"] == "POST" else None
        try:
            scope["caller"] = caller = self._caller(scope)
            if wait := self.limits.wait_seconds(caller, began):
                status = 429
                await send_refusal(self._refuse_rate(scope, wait), scope, ReceivedParts(receive), send)
            elif fast:
                status = await self._answer_fast(fast, scope, receive, send)
            else:
                status = await self._answer(scope, receive, send)
        finally:
            self._service.metrics.count_request(endpoint, status, time.perf_counter() - began)

    def _caller(self, scope: Scope) -> str:
        if self._token is not None and self._has_token(scope):
            return TOKEN_CALLER
        return caller_at(scope["client"][0]) if scope["client"] else "unknown"

    def _refuse_rate(self, scope: Scope, wait: float) -> Response:
        self._note(scope, "rate")
        rate = self.config.serve.max_requests_per_second
        text = f"found more requests than allowed; allowed: at most {rate:g} a second of one caller"
        return refuse(text, 429, {"retry-after": str(math.ceil(wait))})

    def _note(self, scope: Scope, reason: Reason) -> None:
        self.refusals.note(scope["path"].rpartition("/")[2], reason, scope["caller"])

    async def close_streams(self) -> None:
        """End the streams of frames, for which the server would wait."""
        await self._view.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer through Starlette's router; return the status."""
        status = 500

        async def send_noting_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self._app(scope, receive, send_noting_status)
        return status

    async def _answer_fast(self, handler: Handler, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a frequent request without the router and its middleware; return the status."""
        parts = ReceivedParts(receive)
        request = Request(scope, parts)
        try:
            response = await handler(request)
        except Exception as error:
            handle = next(handle for kind, handle in ERROR_HANDLERS.items() if isinstance(error, kind))
            response = await handle(request, error)
            if (reason := limit_of(error)) is not None:
                self._note(scope, reason)
            if response.status_code == 500:
                warn("server_error", exception="".join(traceback.format_exception(error)))
            await send_refusal(response, scope, parts, send)
            return response.status_code
        await response(scope, parts, send)
        return response.status_code

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._service.clean_up_forever()), asyncio.create_task(self._view.watch())]
        yield
        for task in tasks:
            task.cancel()
        self._service.close()

    async def _get_links(self, request: Request) -> Response:
        """Lead people to the dashboard, and programs to the rest."""
        if "text/html" in (get_header(request, "accept") or ""):
            return RedirectResponse("/dashboard")
        model = f"/v2/models/{self.config.model.name}"
        return json_answer(Links(PLATFORM, self.version, "/dashboard", PATH, model, "/v2/health/ready", "/metrics"))

    async def _get_metrics(self, request: Request) -> Response:
        self._authorize(request)
        page = await asyncio.to_thread(self._service.metrics.render)
        return await make_response(request, page, {"content-type": CONTENT_TYPE_LATEST})

    async def _get_description(self, request: Request) -> Response:
        return await make_response(request, self._description, {"content-type": JSON})

    async def _get_server(self, _: Request) -> Response:
        return json_answer(ServerMetadata(PLATFORM, self.version, ["binary_tensor_data"]))

    async def _check_live(self, _: Request) -> Response:
        return json_answer(Live())

    async def _check_ready(self, _: Request) -> Response:
        await self._service.check_ready()
        return json_answer(Ready(self.config.model.name))

    async def _get_model(self, _: Request) -> Response:
        return json_answer(model_metadata(self.config))

    async def _infer(self, request: Request) -> Response:
        self._authorize(request)
        limits, json_length, on_start = self._request_limits, None, None
        if (header := get_header(request, JSON_LENGTH_HEADER)) is not None:
            json_length = read_json_length(header, limits)
            on_start = (json_length, lambda head: check_head(head, limits, self._check_inputs))
        async with self._body(request, on_start) as body:
            steps = parse_in_steps(body, json_length, limits, self._check_inputs)
            call = await run_in_slices(steps, self._service.large_turn)
            del body
            check_outputs(call, OUTPUTS)
            ids, predictions = await self._service.predict(call.inputs)
            call.inputs.clear()
        outputs: dict[str, Array] = {"prediction": predictions, "prediction_id": np.array(ids, dtype=np.int64)}
        with self._service.answering(ids):
            answer = encode_response(self.config.model.name, VERSIONS[-1], call, outputs)
            response = await make_response(request, *answer)
            # Asking takes as long as a tenth of a request, and where silence says nothing, it does not matter.
            if self.config.feedback.unanswered == "negative" and await request.is_disconnected():
                raise HTTPException(400, "the client disconnected before the answer")
        return response

    def _check_inputs(self, tensors: Sequence[TensorHead]) -> None:
        self._service.check_shapes({tensor.name: tensor.shape for tensor in tensors})

    async def _feedback(self, request: Request) -> Response:
        self._authorize(request)
        most = self.config.serve.max_examples
        async with self._body(request) as body:
            if (commas := body.count(b",")) > 2 * most:  # of two lists, before they are decoded
                raise RequestTooLarge("feedback", f"{(commas + 1) // 2} labels", f"at most {most} in one request")
            try:
                feedback = msgspec.json.decode(body, type=Feedback)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                allowed = f"ids and labels, each {self._service.allowed_labels} ({error})"
                raise InvalidValue("feedback", "the body", allowed) from None
            if len(feedback.ids) > most:
                raise RequestTooLarge("feedback.ids", f"{len(feedback.ids)} ids", f"at most {most} in one request")
            return json_answer(await self._service.feedback(feedback.ids, feedback.labels))

    @contextlib.asynccontextmanager
    async def _body(self, request: Request, on_start: OnStart | None = None) -> AsyncIterator[bytearray]:
        """Read the body, if it may be so large and there is room for it; the room is taken until the end."""
        caller, bodies = request.scope["caller"], self.limits.bodies
        head = check_body_head(request, self.config.serve, binary=on_start is not None)
        size = head.expected if head.expected > SMALL_BODY_BYTES else 0
        if not bodies.take(caller, size):
            text = f"found too many large requests at once; allowed: {bodies.per_caller} bytes of one caller"
            raise LimitReached(503 if bodies.is_used_up else 429, text, "busy", {"retry-after": "1"})
        try:
            yield await read_body(request, head, on_start)
        finally:
            bodies.give_back(caller, size)

    def _authorize(self, request: Request) -> None:
        if self._token is not None and not self._has_token(request.scope):
            raise HTTPException(401, "send the token: Authorization: Bearer ...", {"www-authenticate": "Bearer"})

    def _has_token(self, scope: Scope) -> bool:
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(sent, b"Bearer " + (self._token or b""))
