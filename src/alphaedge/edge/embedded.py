"""An edge inside your own process: the same predictions, journal and learner, without the HTTP server."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, final

import numpy as np
import torch
from numpy.typing import NDArray

from alphaedge.edge.check import check_edge
from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Array
from alphaedge.edge.serving.service import PredictionService
from alphaedge.edge.store.clock import journal_clock
from alphaedge.edge.store.status import LearnerStatus, read_learner_status
from alphaedge.edge.supervisor import LearnerCommand, supervise_learner
from alphaedge.errors import AlphaEdgeError, InvalidValue, ParametersError
from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.inference.tensors import array_of, texts_of

POLL_INTERVAL_SECONDS: Final = 0.02  # between two checks that the learner has handed parameters over


@final
class Edge:
    """A live edge for programs that have a server of their own.

    config: a file such as ``alphaedge edge init`` writes; its ``[serve]`` is ignored. insecure: whether peers, all on
    this machine, need no certificates. start_timeout: seconds for the learner to start.

        async with alphaedge.Edge("edge.toml") as edge:
            ids, y = await edge.predict({"user": ["ann", "bob"], "item": [7, 8]})
            await edge.feedback(ids, [1, 0])  # now or hours later, in this process or after a restart
    """

    def __init__(self, config: str | Path, *, insecure: bool = False, start_timeout: float = 60.0) -> None:
        self._path, self._insecure, self._start_timeout = Path(config), insecure, start_timeout
        self._service: PredictionService | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Edge":
        config, folder = load(self._path), self._path.parent
        check_edge(config, folder, dt.datetime.now(dt.UTC), insecure=self._insecure)
        self._service = PredictionService(config, folder, journal_clock)
        command = LearnerCommand(config, folder, "text", self._insecure)
        self._tasks = [
            asyncio.create_task(supervise_learner(command)),
            asyncio.create_task(self._service.clean_up_forever()),
        ]
        try:
            await self._wait_until_ready(self._service)
        except BaseException:
            await self._close()
            raise
        return self

    async def _wait_until_ready(self, service: PredictionService) -> None:
        end = asyncio.get_running_loop().time() + self._start_timeout
        while True:
            try:
                return await service.check_ready()
            except ParametersError:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._service is not None:
            self._service.close()
        self._service, self._tasks = None, []

    async def predict(self, inputs: Mapping[str, Any]) -> tuple[list[int], NDArray[np.float32]]:
        """Predict examples; return prediction ids and outputs [B]. They are on disk when this returns.

        inputs: for each field of the model one value per example, as a list, numpy array or tensor.
        """
        return await self._require_service().predict({name: _array(name, values) for name, values in inputs.items()})

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        """Report the labels of earlier predictions, in any order; sending a label again is harmless.

        Returns how many were accepted, which are on disk now, and how many were known already, expired or unknown.
        """
        return await self._require_service().feedback([int(i) for i in ids], [float(y) for y in labels])

    def status(self) -> LearnerStatus | None:
        """How the learner is doing: batches, score, peers with their shares; None before its first report."""
        return read_learner_status(self._require_service().data / "status.json")

    def _require_service(self) -> PredictionService:
        if self._service is None:
            raise AlphaEdgeError("the edge is not running: use it within `async with alphaedge.Edge(...) as edge:`")
        return self._service


def _array(name: str, values: Any) -> Array:
    """Convert the values of one field to an array; text becomes bytes, as on the wire; None or NaN is no text."""
    if isinstance(values, torch.Tensor):
        values = values.detach().numpy()
    try:
        array = array_of(values)
    except ValueError as error:
        raise InvalidValue(f"inputs.{name}", "values", f"one for each example ({error})") from None
    if array.dtype.kind in "US" or array.dtype == object:
        flat = np.empty(array.size, dtype=object)
        flat[:] = texts_of(array)
        array = flat.reshape(array.shape)
    if array.ndim == 0:
        raise InvalidValue(f"inputs.{name}", values, "a list of values, one for each example")
    return array
