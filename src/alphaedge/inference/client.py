"""The client for one edge over HTTP: what its model takes, predictions, feedback."""

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, final
from urllib.parse import quote

import aiohttp
import msgspec
import numpy as np
from numpy.typing import NDArray

from alphaedge.data.stream import Task
from alphaedge.errors import EdgeError, InvalidValue, check_number
from alphaedge.http_client import authorization, check_url, refusal_reason, tls_context
from alphaedge.inference.client_codec import decode_response, encode_request
from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.inference.tensors import JSON_LENGTH_HEADER

KEEP_ALIVE_SECONDS: Final = 4.0  # of an idle connection; servers commonly close theirs after 5


@final
class TensorInfo(msgspec.Struct, frozen=True):
    """An input as an edge describes it; -1 in a shape is the number of examples."""

    name: str
    datatype: str
    shape: list[int]


@final
class ModelParameters(msgspec.Struct, frozen=True):
    """What a model predicts. classes: what the labels 0 and 1 stand for. None: the edge does not report it."""

    task: Task | None = None
    classes: tuple[str, str] | None = None


@final
class ModelInfo(msgspec.Struct, frozen=True):
    """A model as an edge describes it."""

    name: str
    inputs: list[TensorInfo]
    parameters: ModelParameters = ModelParameters()


@final
class Predictions(NamedTuple):
    """Predictions [B], their ids, which feedback refers to, and the seconds until the answer."""

    ids: NDArray[np.int64]
    predictions: NDArray[np.float32]
    seconds: float


@final
class EdgeClient:
    """Sends requests to one edge over kept-alive connections. Close it when done, or use ``async with``.

    model: its name, if the edge does not report it. token: what the edge asks callers for, if anything. authority: a
    file with the certificate that signed the edge's own; None: whom the system trusts. timeout: seconds per request.
    All methods raise ``EdgeError`` if the edge refuses or does not answer.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        token: str | None = None,
        authority: Path | None = None,
        timeout: float = 10.0,
    ) -> None:
        self.url = check_url("url", url)
        check_number("timeout", timeout, above=0)
        self._model, self._timeout = model, aiohttp.ClientTimeout(total=timeout)
        # Compressed answers would cost both ends time and save little.
        self._headers = {"Accept-Encoding": "identity"} | authorization(token)
        self._tls = tls_context(authority)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "EdgeClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ready(self) -> bool:
        """Whether the edge can predict now."""
        try:
            await self._request("GET", "/v2/health/ready")
        except EdgeError as error:
            if not error.temporary:
                raise
            return False
        return True

    async def metadata(self) -> ModelInfo:
        """Return the inputs of the edge's model."""
        body, _ = await self._request("GET", await self._model_path())
        try:
            return msgspec.json.decode(body, type=ModelInfo)
        except msgspec.MsgspecError as error:
            raise EdgeError(self.url, f"its model's description can't be read ({error})", 200) from None

    async def check_token(self) -> None:
        """Raise ``EdgeError`` if the edge asks for another token. The request has no examples: nothing is predicted."""
        body, headers = encode_request({})
        try:
            await self._request("POST", f"{await self._model_path()}/infer", body, headers)
        except EdgeError as error:
            if error.status in (401, 403):
                raise

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        """Return predictions for examples. inputs: arrays or tensors [B, ...] by field name."""
        count = len(next(iter(inputs.values())))
        path = await self._model_path()
        clock = asyncio.get_running_loop().time
        started = clock()
        body, json_length = await self._request("POST", f"{path}/infer", *encode_request(inputs))
        seconds = clock() - started
        try:
            outputs = decode_response(body, json_length)
            ids, predictions = outputs["prediction_id"].astype(np.int64), outputs["prediction"].astype(np.float32)
        except (ValueError, KeyError, msgspec.MsgspecError) as error:
            raise EdgeError(self.url, f"its answer can't be read ({error!r})", 200) from None
        if not len(ids) == len(predictions) == count:
            raise EdgeError(self.url, f"{len(ids)} ids and {len(predictions)} predictions for {count} examples", 200)
        return Predictions(ids, predictions, seconds)

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        """Send the labels of predictions. Sending a label twice does no harm."""
        content = msgspec.json.encode({"ids": ids, "labels": labels})
        path, headers = f"{await self._model_path()}/feedback", {"Content-Type": "application/json"}
        body, _ = await self._request("POST", path, content, headers)
        try:
            return msgspec.json.decode(body, type=FeedbackCounts)
        except msgspec.MsgspecError as error:
            raise EdgeError(self.url, f"its answer can't be read ({error})", 200) from None

    async def _model_path(self) -> str:
        if self._model is None:
            self._model = _model_name(self.url, await self._fetch_api())
        return f"/v2/models/{quote(self._model, safe='')}"

    async def _fetch_api(self) -> Any:
        """Return the edge's OpenAPI description; None if it has none."""
        try:
            body, _ = await self._request("GET", "/v2/openapi.json")
            return msgspec.json.decode(body)
        except msgspec.MsgspecError:
            return None
        except EdgeError as error:
            if error.status in (0, 401, 403):
                raise
            return None

    async def _request(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, str | None]:
        """Return the body of an answer, and the header that says where its JSON ends, if it has one."""
        session = self._session or self._open_session()
        try:
            # Redirects are not followed: the token is for this edge alone.
            async with session.request(
                method, self.url + path, data=content, headers=headers, allow_redirects=False
            ) as response:
                body = await response.read()
                if response.status != 200:
                    raise EdgeError(self.url, f"{response.status}: {refusal_reason(body)}", response.status)
                return body, response.headers.get(JSON_LENGTH_HEADER)
        except TimeoutError:
            raise EdgeError(self.url, f"no answer in {self._timeout.total:g} s") from None
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise EdgeError(self.url, f"no trusted connection ({error})", temporary=False) from None
        except (aiohttp.ClientError, OSError) as error:
            raise EdgeError(self.url, f"no answer ({_describe(error)})") from None

    def _open_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, ssl=self._tls or True)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=self._timeout, headers=self._headers, auto_decompress=False
        )
        return self._session


def _describe(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


def _model_name(url: str, api: Any) -> str:
    """Return the name of the edge's one model, from its API description."""
    try:
        parameters = api["paths"]["/v2/models/{name}"]["parameters"]
        (names,) = [p["schema"]["enum"] for p in parameters if p["name"] == "name"]
        (name,) = names
    except (KeyError, TypeError, ValueError):
        raise InvalidValue("model", None, f"the name of the model, since {url} does not report it") from None
    return str(name)
