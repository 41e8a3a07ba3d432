"""What runs on Ray: the worker with its cache, the board for progress, and data in the memory that a node shares."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple, final

import ray
import torch

from alphaedge.data.stream import Dataset, Stream
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.shards import Shards
from alphaedge.simulation.task import Outcome, Task, TaskStopped, WorkerCache, run_task


@final
class Worker:
    """One actor, and what it keeps from task to task."""

    def __init__(self) -> None:
        self.cache = WorkerCache()
        self.own: dict[bytes, Dataset] = {}

    def run(
        self,
        board: Any,
        number: int,
        task: Task,
        key: bytes,
        shared: "SharedData | None",
        shards: Shards | None = None,
    ) -> Outcome | None:
        """Run a task; None if it was stopped. shared: its data, to be kept by that key."""
        if shared is not None and key.startswith(b"own"):
            if key not in self.own:
                self.own = {key: shared.dataset()}
            task = replace(task, data=self.own[key])
        elif shared is not None:
            self.cache.keep(key, shared.dataset)

        def report(name: str, progress: Progress) -> bool:
            return bool(ray.get(board.report.remote(number, name, progress)))

        try:
            return run_task(task, self.cache, report, shards)
        except TaskStopped:
            return None


@final
class Board:
    """Where workers report their progress, and learn that a task is to stop. Loses nothing that matters if it dies."""

    def __init__(self) -> None:
        self.latest: dict[int, tuple[str, Progress]] = {}
        self.stopped: set[int] = set()

    def report(self, number: int, name: str, progress: Progress) -> bool:
        """Note the progress of a task; returns whether it is to stop."""
        self.latest[number] = name, progress
        return number in self.stopped

    def take(self) -> dict[int, tuple[str, Progress]]:
        """The news since the last time."""
        latest, self.latest = self.latest, {}
        return latest

    def stop(self, number: int) -> None:
        """Have a task stopped."""
        self.stopped.add(number)


@final
class SharedData(NamedTuple):
    """A data set as arrays, which all workers of a node read from the same memory."""

    about: Mapping[str, Any]
    streams: list[tuple[dict[str, Any], Any, Any]]

    @classmethod
    def of(cls, data: Dataset) -> "SharedData":
        """Take a data set apart."""
        about = {f.name: getattr(data, f.name) for f in fields(data) if f.name != "streams"}
        streams = [
            ({k: v.numpy() for k, v in s.inputs.items()}, s.labels.numpy(), s.times.numpy()) for s in data.streams
        ]
        return cls(about, streams)

    def dataset(self) -> Dataset:
        """Put the data set together, without a copy."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")  # nobody writes to a data set
            streams = tuple(
                Stream({k: torch.from_numpy(v) for k, v in inputs.items()}, *map(torch.from_numpy, (labels, times)))
                for inputs, labels, times in self.streams
            )
        return Dataset(streams=streams, **self.about)


@final
class Packing:
    """Sends data once: to Ray's store, from where all workers of a node read them."""

    def __init__(self, cache: WorkerCache) -> None:
        self._cache = cache
        # References to data in Ray's store; data of the user's own are held, as their key is good for as long.
        self._sent: dict[bytes, tuple[Dataset | None, Any]] = {}

    def pack(self, task: Task) -> tuple[Task, bytes, Any]:
        """A task without its data, and a name and a reference for them, if they are not drawn for each seed."""
        settings = task.settings
        if task.data is None and settings.data == "synthetic":
            return task, b"", None
        key = self._cache.data_key(settings, 0) if task.data is None else b"own %d" % id(task.data)
        if key not in self._sent:
            data = self._cache.data(settings, 0) if task.data is None else task.data
            self._sent[key] = task.data, ray.put(SharedData.of(data))
        return replace(task, data=None), key, self._sent[key][1]
