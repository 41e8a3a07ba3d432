"""The serving process: predictions and feedback over HTTP (Open Inference Protocol v2). It never waits for learning."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, final

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from alphaedge.edge.journal import JournalError
from alphaedge.edge.parameters import ParametersError
from alphaedge.edge.protocol import JSON_LENGTH, Array, parse, respond
from alphaedge.edge.service import Service
from alphaedge.errors import InvalidValue

PLATFORM: Final = "alphaedge"
INPUT_TYPES: Final = {"id": "BYTES", "category": "INT64", "set": "FP32", "number": "FP32"}


class _Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a feedback request: ids of predictions, and what came of each."""

    ids: list[int]
    labels: list[float]


@final
class Server:
    """One edge's public API. token: what callers must show, if anything."""

    def __init__(self, service: Service, version: str, token: bytes | None = None) -> None:
        self.config, self.version = service.config, version
        self._service, self._token = service, token
        model = f"/v2/models/{self.config.model.name}"
        self.app = Starlette(
            routes=[
                Route("/v2", self._server),
                Route("/v2/health/live", self._live),
                Route("/v2/health/ready", self._ready),
                *(Route(f"{model}{v}", self._about) for v in ("", "/versions/{version}")),
                *(Route(f"{model}{v}/ready", self._ready) for v in ("", "/versions/{version}")),
                *(Route(f"{model}{v}/infer", self._infer, methods=["POST"]) for v in ("", "/versions/{version}")),
                Route(f"{model}/feedback", self._feedback, methods=["POST"]),
            ],
            exception_handlers={
                InvalidValue: _refuse(400),
                JournalError: _refuse(503),
                ParametersError: _refuse(503),
                HTTPException: _http_error,
            },
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        tidying = asyncio.create_task(self._service.tidy())
        yield
        tidying.cancel()
        self._service.close()

    async def _server(self, _: Request) -> Response:
        return _json({"name": PLATFORM, "version": self.version, "extensions": ["binary_tensor_data"]})

    async def _live(self, _: Request) -> Response:
        return _json({"live": True})

    async def _ready(self, _: Request) -> Response:
        await self._service.ready()
        return _json({"name": self.config.model.name, "ready": True})

    async def _about(self, _: Request) -> Response:
        inputs = [
            {
                "name": f.name,
                "datatype": INPUT_TYPES[f.kind],
                "shape": [-1, f.size] if f.kind in ("set", "number") else [-1],
            }
            for f in self.config.model.fields
        ]
        outputs = [
            {"name": "prediction", "datatype": "FP32", "shape": [-1]},
            {"name": "prediction_id", "datatype": "INT64", "shape": [-1]},
        ]
        known = {"name": self.config.model.name, "versions": ["1"], "platform": PLATFORM}
        return _json({**known, "inputs": inputs, "outputs": outputs})

    async def _infer(self, request: Request) -> Response:
        self._authorised(request)
        call = parse(await self._body(request), request.headers.get(JSON_LENGTH))
        ids, found = await self._service.predict(call.inputs)
        outputs: dict[str, Array] = {"prediction": found, "prediction_id": np.array(ids, dtype=np.int64)}
        body, headers = respond(self.config.model.name, "1", call, outputs)
        return Response(body, headers=headers)

    async def _feedback(self, request: Request) -> Response:
        self._authorised(request)
        try:
            told = msgspec.json.decode(await self._body(request), type=_Feedback)
        except msgspec.MsgspecError as error:
            raise InvalidValue("feedback", "the body", f"ids and labels ({error})") from None
        return _json(await self._service.feedback(told.ids, told.labels))

    def _authorised(self, request: Request) -> None:
        if self._token is None:
            return
        shown = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(shown, b"Bearer " + self._token):
            raise HTTPException(401, "show the token: Authorization: Bearer ...", {"www-authenticate": "Bearer"})

    async def _body(self, request: Request) -> bytes:
        """The whole body, unless it is too large."""
        most, parts, size = self.config.serve.body, [], 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise HTTPException(413, f"request: found more than {most} bytes; allowed: at most {most}")
                parts.append(part)
        except ClientDisconnect:
            raise HTTPException(400, "the request ended too early") from None
        return b"".join(parts)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _refuse(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(_: Request, error: Exception) -> Response:
        return _json({"error": str(error)}, status)

    return answer


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code, dict(error.headers or {}))
