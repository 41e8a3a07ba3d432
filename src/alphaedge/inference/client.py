"""One edge over HTTP, as its callers see it: what its model takes, predictions, feedback."""

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

KEEP: Final = 4.0  # seconds that an idle connection is kept; servers commonly close theirs after 5


@final
class TensorInfo(msgspec.Struct, frozen=True):
    """An input as an edge describes it; -1 in a shape is the number of examples."""

    name: str
    datatype: str
    shape: list[int]


@final
class ModelInfo(msgspec.Struct, frozen=True):
    """A model as an edge describes it. task: if it tells."""

    name: str
    inputs: list[TensorInfo]
    task: Task | None = None


@final
class Predictions(NamedTuple):
    """Predictions [B], their ids, which feedback names, and the seconds that the answer took."""

    ids: NDArray[np.int64]
    predictions: NDArray[np.float32]
    seconds: float


@final
class EdgeClient:
    """Asks one edge, over connections that are kept. Close it when done, or use ``async with``.

    model: its name, if the edge does not tell. token: what callers must show, if anything. authority: a file with the
    certificate that an HTTPS edge must be able to refer to, instead of those that the system trusts. timeout: seconds.
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
        # Compressed answers would cost both ends time and save nothing that matters here.
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
        """Whether the edge could predict now."""
        try:
            await self._ask("GET", "/v2/health/ready")
        except EdgeError as error:
            if not error.temporary:
                raise
            return False
        return True

    async def metadata(self) -> ModelInfo:
        """What the edge's model takes. Its name, if it was not given, is the one that the edge's description has."""
        described = await self._description()
        if self._model is None:
            self._model = _model_name(self.url, described)
        raw, _ = await self._ask("GET", f"/v2/models/{quote(self._model, safe='')}")
        try:
            found = msgspec.json.decode(raw, type=ModelInfo)
        except msgspec.MsgspecError as error:
            raise EdgeError(self.url, f"its model's description can't be read ({error})", 200) from None
        return msgspec.structs.replace(found, task=_task(described))

    async def check_token(self) -> None:
        """An error if the edge wants another token. It asks for nothing, so nothing is predicted."""
        body, headers = encode_request({})
        try:
            await self._ask("POST", f"{await self._path()}/infer", body, headers)
        except EdgeError as error:
            if error.status in (401, 403):
                raise

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        """Predictions of examples: arrays or tensors [B, ...] by the name of the field."""
        count = len(next(iter(inputs.values())))
        path = await self._path()
        clock = asyncio.get_running_loop().time
        began = clock()
        raw, length = await self._ask("POST", f"{path}/infer", *encode_request(inputs))
        seconds = clock() - began
        try:
            outputs = decode_response(raw, length)
            ids, found = outputs["prediction_id"].astype(np.int64), outputs["prediction"].astype(np.float32)
        except (ValueError, KeyError, msgspec.MsgspecError) as error:
            raise EdgeError(self.url, f"its answer can't be read ({error!r})", 200) from None
        if not len(ids) == len(found) == count:
            raise EdgeError(self.url, f"{len(ids)} ids and {len(found)} predictions for {count} examples", 200)
        return Predictions(ids, found, seconds)

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        """Tell what came of predictions; it may be told again."""
        body = msgspec.json.encode({"ids": ids, "labels": labels})
        raw, _ = await self._ask("POST", f"{await self._path()}/feedback", body, {"Content-Type": "application/json"})
        try:
            return msgspec.json.decode(raw, type=FeedbackCounts)
        except msgspec.MsgspecError as error:
            raise EdgeError(self.url, f"its answer can't be read ({error})", 200) from None

    async def _path(self) -> str:
        if self._model is None:
            self._model = _model_name(self.url, await self._description())
        return f"/v2/models/{quote(self._model, safe='')}"

    async def _description(self) -> Any:
        """The edge's description of its API; nothing if it has none."""
        try:
            raw, _ = await self._ask("GET", "/v2/openapi.json")
            return msgspec.json.decode(raw)
        except msgspec.MsgspecError:
            return None
        except EdgeError as error:
            if error.status in (0, 401, 403):
                raise
            return None

    async def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, str | None]:
        """The body of an answer, and where its JSON ends, if that is told."""
        session = self._session or self._open()
        try:
            # Nobody is sent elsewhere: the token is for this edge alone.
            async with session.request(
                method, self.url + path, data=body, headers=headers, allow_redirects=False
            ) as response:
                raw = await response.read()
                if response.status != 200:
                    raise EdgeError(self.url, f"{response.status}: {refusal_reason(raw)}", response.status)
                return raw, response.headers.get(JSON_LENGTH_HEADER)
        except TimeoutError:
            raise EdgeError(self.url, f"no answer in {self._timeout.total:g} s") from None
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise EdgeError(self.url, f"no trusted connection ({error})", temporary=False) from None
        except (aiohttp.ClientError, OSError) as error:
            raise EdgeError(self.url, f"no answer ({_why(error)})") from None

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP, ssl=self._tls or True)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=self._timeout, headers=self._headers, auto_decompress=False
        )
        return self._session


def _why(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


def _model_name(url: str, described: Any) -> str:
    """The name of the one model that an edge's description has."""
    try:
        parameters = described["paths"]["/v2/models/{name}"]["parameters"]
        (names,) = [p["schema"]["enum"] for p in parameters if p["name"] == "name"]
        (name,) = names
    except (KeyError, TypeError, ValueError):
        raise InvalidValue("model", None, f"the model's name, since {url} does not say what its one model is") from None
    return str(name)


def _task(described: Any) -> Task | None:
    """An edge that classifies says that labels are 0 or 1."""
    try:
        labels = described["components"]["schemas"]["Feedback"]["properties"]["labels"]["items"]
        return "classify" if labels.get("enum") == [0, 1] else "regress"
    except (KeyError, TypeError, AttributeError):
        return None
