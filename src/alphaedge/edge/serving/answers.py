"""Answers of the public API as JSON, and which of them each kind of error gets."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from alphaedge.edge.serving.limits import Reason
from alphaedge.edge.serving.messages import Refusal
from alphaedge.edge.serving.openapi import JSON, PATH
from alphaedge.edge.serving.refusals import LimitReached
from alphaedge.errors import InvalidValue, JournalError, ParametersError, RequestTooLarge

ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]
MAX_ERROR_LENGTH: Final = 1000  # characters; an error may quote the request


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with a value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def refuse(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """A response that says why a request is refused."""
    return json_answer(
        Refusal(text if len(text) <= MAX_ERROR_LENGTH else text[:MAX_ERROR_LENGTH] + "..."), status, headers
    )


def _refuse_with(status: int) -> ErrorHandler:
    async def handle(_: Request, error: Exception) -> Response:
        return refuse(str(error), status)

    return handle


async def _refuse_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{error.detail}: see {PATH} for what there is" if error.status_code in (404, 405) else error.detail
    return refuse(text, error.status_code, dict(error.headers or {}))


async def _refuse_without_memory(_: Request, __: Exception) -> Response:
    return refuse("there is not enough memory for this request now", 503, {"retry-after": "1"})


def limit_of(error: Exception) -> Reason | None:
    """Which limit an error is about, if any."""
    if isinstance(error, LimitReached):
        return error.reason
    return "size" if isinstance(error, RequestTooLarge) else "memory" if isinstance(error, MemoryError) else None


async def _refuse_unexpected(_: Request, error: Exception) -> Response:
    return refuse(f"internal server error ({type(error).__name__}); see the server's log", 500)


ERROR_HANDLERS: Final[Mapping[Any, ErrorHandler]] = {
    RequestTooLarge: _refuse_with(413),
    InvalidValue: _refuse_with(400),
    JournalError: _refuse_with(503),
    ParametersError: _refuse_with(503),
    MemoryError: _refuse_without_memory,
    HTTPException: _refuse_http_error,
    Exception: _refuse_unexpected,
}
