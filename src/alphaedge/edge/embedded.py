"""An edge in one's own process: the same predictions, journal and learner, without the HTTP server."""

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

from alphaedge.edge.check import checked
from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Array
from alphaedge.edge.server_process import LearnerCommand, journal_clock, supervise_learner
from alphaedge.edge.serving.service import Service
from alphaedge.edge.store.status import LearnerStatus, read
from alphaedge.errors import AlphaEdgeError, InvalidValue, ParametersError

LOOK: Final = 0.02  # seconds between two looks whether the learner has handed something over


@final
class Edge:
    """A live edge for programs that have a server of their own.

    config: a file such as ``alphaedge edge init`` writes; its ``[serve]`` does not matter. insecure: peers without
    certificates, on loopback alone. patience: seconds in which the learner must have begun.

        async with alphaedge.Edge("edge.toml") as edge:
            ids, y = await edge.predict({"user": ["ann", "bob"], "item": [7, 8]})
            await edge.feedback(ids, [1, 0])  # now or hours later, in this process or after a restart
    """

    def __init__(self, config: str | Path, *, insecure: bool = False, patience: float = 60.0) -> None:
        self._path, self._insecure, self._patience = Path(config), insecure, patience
        self._service: Service | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Edge":
        config, folder = load(self._path), self._path.parent
        checked(config, folder, dt.datetime.now(dt.UTC), insecure=self._insecure)
        self._service = Service(config, folder, journal_clock)
        command = LearnerCommand(self._path, "text", self._insecure)
        self._tasks = [asyncio.create_task(supervise_learner(command)), asyncio.create_task(self._service.tidy())]
        try:
            await self._until_ready(self._service)
        except BaseException:
            await self._close()
            raise
        return self

    async def _until_ready(self, service: Service) -> None:
        end = asyncio.get_running_loop().time() + self._patience
        while True:
            try:
                return await service.ready()
            except ParametersError:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(LOOK)

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
        """Predictions [B] of examples, given field by field, and their ids. They are on disk when this returns.

        inputs: for each field of the model one value for each example: lists, numpy arrays or tensors.
        """
        return await self._running().predict({name: _array(name, values) for name, values in inputs.items()})

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> dict[str, int]:
        """Take what came of predictions, in any order, any number of times. What is accepted is on disk afterwards.

        Returns how many were accepted, known already, expired or unknown.
        """
        return await self._running().feedback([int(i) for i in ids], [float(y) for y in labels])

    def status(self) -> LearnerStatus | None:
        """How the learner is doing: batches, score, peers with their shares; None before it has said anything."""
        return read(self._running().data / "status.json")

    def _running(self) -> Service:
        if self._service is None:
            raise AlphaEdgeError("the edge does not run: use it within `async with alphaedge.Edge(...) as edge:`")
        return self._service


def _array(name: str, values: Any) -> Array:
    """One field's values as an array; text becomes bytes, as on the wire."""
    if isinstance(values, torch.Tensor):
        values = values.detach().numpy()
    try:
        made = np.asarray(values)
    except ValueError as error:
        raise InvalidValue(f"inputs.{name}", "values", f"one for each example ({error})") from None
    if made.dtype.kind in "US" or made.dtype == object:
        flat = np.empty(made.size, dtype=object)
        flat[:] = [v if isinstance(v, bytes) else str(v).encode() for v in made.flat]
        made = flat.reshape(made.shape)
    if made.ndim == 0:
        raise InvalidValue(f"inputs.{name}", values, "a list of values, one for each example")
    return made
