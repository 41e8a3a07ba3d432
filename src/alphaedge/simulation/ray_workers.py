"""Tasks on a Ray cluster, or on a Ray of this machine's own (extra "ray").

Each worker is an actor with a core to itself. A worker that dies is started again, and so is its task, which has the
same outcome wherever it runs. Data travel once to each node, into Ray's shared memory.
"""

import logging
import os
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import islice
from typing import Any, Final, NamedTuple, final

import ray
import torch

from alphaedge.data.stream import Dataset, Stream
from alphaedge.errors import AlphaEdgeError, InvalidValue
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.task import Outcome, Task, TaskStopped, Watch, WorkerCache, run_task

_POLL_SECONDS: Final = 0.2
_RETRIES: Final = 5  # of one task, each after the death of its worker


@contextmanager
def ray_workers(address: str | None = None, count: int | None = None) -> Iterator["RayWorkers"]:
    """Workers on the cluster at ``address``, which stays up; or on a Ray that lasts as long as this.

    count: how many at most; the default is one for each core of the cluster.
    """
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to Ray's makers unless the user wants it
    where: dict[str, Any] = {"address": address}
    if address is None:  # a Ray has no passwords: one of our own listens on loopback alone
        where = {"address": "local", "num_cpus": count, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address is None:
            raise AlphaEdgeError(f"Ray did not start: {error}") from error
        raise InvalidValue("ray_address", address, f"the address of a running Ray cluster ({error})") from error
    try:
        found: Any = ray.cluster_resources
        cores = max(1, int(found().get("CPU", 1)))
        yield RayWorkers(min(count or cores, cores))
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise InvalidValue("ray_address", address, f"the address of a running Ray cluster ({error})") from error


@final
class RayWorkers:
    """Runs tasks on so many actors of the Ray that this process is connected to."""

    def __init__(self, count: int) -> None:
        self.count, self.cache = count, WorkerCache()
        # References to data in Ray's store; data of the user's own are held, as their key is good for as long.
        self._sent: dict[bytes, tuple[Dataset | None, Any]] = {}

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, as they finish."""
        board: Any = ray.remote(_Board).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        worker: Any = ray.remote(_Worker).options(num_cpus=1, max_restarts=-1, max_task_retries=_RETRIES)
        idle: list[Any] = []
        running: dict[Any, Any] = {}  # the worker of each outcome to come
        numbered = enumerate(iter(tasks), 1)
        try:
            while True:
                for number, task in islice(numbered, self.count - len(running)):
                    free = idle.pop() if idle else worker.remote()
                    running[free.run.remote(board, number, *self._pack(task))] = free
                if not running:
                    return
                done, _ = ray.wait(list(running), timeout=_POLL_SECONDS)
                for number, (name, progress) in ray.get(board.take.remote()).items():
                    if watch(name, progress):
                        board.stop.remote(number)
                for reference in done:
                    idle.append(running.pop(reference))
                    if (outcome := _result(reference)) is not None:
                        yield outcome
        finally:
            for actor in (*idle, *running.values(), board):
                ray.kill(actor)

    def _pack(self, task: Task) -> tuple[Task, bytes, Any]:
        """A task without its data, and a name and a reference for them, if they are not drawn for each seed."""
        settings = task.settings
        if task.data is None and settings.data == "synthetic":
            return task, b"", None
        key = self.cache.data_key(settings, 0) if task.data is None else b"own %d" % id(task.data)
        if key not in self._sent:
            data = self.cache.data(settings, 0) if task.data is None else task.data
            self._sent[key] = task.data, ray.put(_SharedData.of(data))
        return replace(task, data=None), key, self._sent[key][1]


def _result(reference: Any) -> Outcome | None:
    try:
        found: Outcome | None = ray.get(reference)
    except ray.exceptions.RayActorError as error:
        raise AlphaEdgeError(f"a Ray worker died {1 + _RETRIES} times with the same task: {error}") from error
    return found


@final
class _Worker:
    """One actor, and what it keeps from task to task."""

    def __init__(self) -> None:
        self.cache = WorkerCache()
        self.own: dict[bytes, Dataset] = {}

    def run(self, board: Any, number: int, task: Task, key: bytes, shared: "_SharedData | None") -> Outcome | None:
        if shared is not None and key.startswith(b"own"):
            if key not in self.own:
                self.own = {key: shared.dataset()}
            task = replace(task, data=self.own[key])
        elif shared is not None:
            self.cache.keep(key, shared.dataset)

        def report(name: str, progress: Progress) -> bool:
            return bool(ray.get(board.report.remote(number, name, progress)))

        try:
            return run_task(task, self.cache, report)
        except TaskStopped:
            return None


@final
class _Board:
    """Where workers report their progress, and learn that a task is to stop. Loses nothing that matters if it dies."""

    def __init__(self) -> None:
        self.latest: dict[int, tuple[str, Progress]] = {}
        self.stopped: set[int] = set()

    def report(self, number: int, name: str, progress: Progress) -> bool:
        self.latest[number] = name, progress
        return number in self.stopped

    def take(self) -> dict[int, tuple[str, Progress]]:
        latest, self.latest = self.latest, {}
        return latest

    def stop(self, number: int) -> None:
        self.stopped.add(number)


class _SharedData(NamedTuple):
    """A data set as arrays, which all workers of a node read from the same memory."""

    about: Mapping[str, Any]
    streams: list[tuple[dict[str, Any], Any, Any]]

    @classmethod
    def of(cls, data: Dataset) -> "_SharedData":
        about = {f.name: getattr(data, f.name) for f in fields(data) if f.name != "streams"}
        streams = [
            ({k: v.numpy() for k, v in s.inputs.items()}, s.labels.numpy(), s.times.numpy()) for s in data.streams
        ]
        return cls(about, streams)

    def dataset(self) -> Dataset:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")  # nobody writes to a data set
            streams = tuple(
                Stream({k: torch.from_numpy(v) for k, v in inputs.items()}, *map(torch.from_numpy, (labels, times)))
                for inputs, labels, times in self.streams
            )
        return Dataset(streams=streams, **self.about)
