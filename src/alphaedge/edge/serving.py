"""The serving process: predictions and feedback over HTTP (Open Inference Protocol v2). It never waits for learning."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from alphaedge.core.gradients import OneAtATime
from alphaedge.edge.config import EdgeConfig, FieldConfig
from alphaedge.edge.features import Features
from alphaedge.edge.journal import Journal, JournalError
from alphaedge.edge.learning import learned_so_far, seeded
from alphaedge.edge.parameters import ParametersError, Reader
from alphaedge.edge.predictor import Predictor
from alphaedge.edge.protocol import JSON_LENGTH, Array, parse, respond
from alphaedge.edge.scribe import Scribe
from alphaedge.errors import InvalidValue

PLATFORM: Final = "alphaedge"
INPUT_TYPES: Final = {"id": "BYTES", "category": "INT64", "set": "FP32", "number": "FP32"}
TIDY_EVERY: Final = 10.0  # seconds between two looks for predictions that have expired


class _Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a feedback request: ids of predictions, and what came of each."""

    ids: list[int]
    labels: list[float]


@final
class Server:
    """One edge's public API over its journal and its parameters."""

    def __init__(self, config: EdgeConfig, folder: Path, clock: Callable[[], float], version: str) -> None:
        self.config, self.version, self._clock = config, version, clock
        self._data = folder / config.data
        secret = (folder / config.secret).read_bytes().strip() if config.secret else b""
        self._token = (folder / config.serve.token).read_bytes().strip() if config.serve.token else None
        self._features = Features(config.model.fields, secret)
        self.journal = Journal(self._data / "journal.db")
        self._scribe = Scribe(self.journal, clock)
        self._model = seeded(config)
        self._predictor: Predictor | None = None
        name = config.model.name
        model = f"/v2/models/{name}"
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
        tidying = asyncio.create_task(self._tidy())
        yield
        tidying.cancel()
        self._scribe.close()
        self.journal.close()

    async def _tidy(self) -> None:
        """Now and then: end the wait for outcomes that do not come, and drop what was learned long ago."""
        feedback = self.config.feedback
        while True:
            await asyncio.sleep(min(TIDY_EVERY, feedback.window / 2))
            now = self._clock()
            before, negative = now - feedback.window, feedback.silence == "negative"
            await self._scribe.tidy(lambda j: j.expire(before, negative=negative, now=now))  # noqa: B023
            await self._scribe.tidy(lambda j: j.forget(learned_so_far(self._data), before))  # noqa: B023

    async def _server(self, _: Request) -> Response:
        return _json({"name": PLATFORM, "version": self.version, "extensions": ["binary_tensor_data"]})

    async def _live(self, _: Request) -> Response:
        return _json({"live": True})

    async def _ready(self, _: Request) -> Response:
        self._predicting()
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
        predictor = self._predicting()
        call = parse(await self._body(request), request.headers.get(JSON_LENGTH))
        examples = self._features.take(call.inputs)
        found, _ = predictor.predict(self._features.tensors(examples, self._model.fields))
        ids = await self._scribe.predicted(self._features.pack(examples))
        outputs: dict[str, Array] = {
            "prediction": found.numpy().astype(np.float32),
            "prediction_id": np.array(ids, dtype=np.int64),
        }
        body, headers = respond(self.config.model.name, "1", call, outputs)
        return Response(body, headers=headers)

    async def _feedback(self, request: Request) -> Response:
        self._authorised(request)
        try:
            told = msgspec.json.decode(await self._body(request), type=_Feedback)
        except msgspec.MsgspecError as error:
            raise InvalidValue("feedback", "the body", f"ids and labels ({error})") from None
        if len(told.ids) != len(told.labels) or not told.ids:
            raise InvalidValue("feedback", f"{len(told.ids)} ids, {len(told.labels)} labels", "one label for each id")
        wrong = [i for i in told.ids if not 0 < i < 2**63]
        if wrong:
            raise InvalidValue("feedback.ids", wrong[0], "ids of predictions")
        if self.config.model.task == "classify":
            odd = [y for y in told.labels if y not in (0.0, 1.0)]
            if odd:
                raise InvalidValue("feedback.labels", odd[0], "0 or 1")
        found = await self._scribe.told(list(zip(told.ids, told.labels, strict=True)))
        counts = {reason: sum(o.reason == reason for o in found) for reason in ("known", "expired", "unknown")}
        return _json({"accepted": sum(o.accepted for o in found), **counts})

    def _predicting(self) -> Predictor:
        """What predicts; 503 until the learner has handed something over."""
        if self._predictor is None:
            self._predictor = Predictor(OneAtATime(self._model), Reader(self._data / "parameters"))
        return self._predictor

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


def _wide(field: FieldConfig) -> bool:
    return field.kind in ("set", "number")


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def _refuse(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(_: Request, error: Exception) -> Response:
        return _json({"error": str(error)}, status)

    return answer


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code, dict(error.headers or {}))
