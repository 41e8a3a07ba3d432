"""Tasks on a Ray cluster, or on a Ray of this machine's own (extra "ray").

Each worker is an actor with a core to itself. A worker that dies is started again, and so is its task, which has the
same outcome wherever it runs. Data travel once to each node, into Ray's shared memory.
"""

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, final

import ray

from alphaedge.errors import AlphaEdgeError, InvalidValue, check_number
from alphaedge.simulation.task import Outcome, Task, Watch, WorkerCache
from alphaedge.simulation.workers.ray_actors import Board, Packing, Worker
from alphaedge.simulation.workers.ray_shards import RayShards

_POLL_SECONDS: Final = 0.2
_RETRIES: Final = 5  # of one task, each after the death of its worker


@contextmanager
def ray_workers(
    address: str | None = None, count: int | None = None, shards: int = 1
) -> "Iterator[RayWorkers | RayShards]":
    """Workers on the cluster at ``address``, which stays up; or on a Ray that lasts as long as this.

    count: how many at most; the default is one for each core of the cluster. shards: more than 1 cuts the fleet of each
    task into so many, on as many workers.
    """
    check_number("shards", shards, low=1, whole=True)
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to Ray's makers unless the user wants it
    where: dict[str, Any] = {"address": address}
    if address is None:  # a Ray has no passwords: one of our own listens on loopback alone
        cores = max(shards, os.cpu_count() or 1) if count is None else count
        where = {"address": "local", "num_cpus": cores, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address is None:
            raise AlphaEdgeError(f"Ray did not start: {error}") from error
        raise InvalidValue("ray_address", address, f"the address of a running Ray cluster ({error})") from error
    try:
        found: Any = ray.cluster_resources
        cores = max(1, int(found().get("CPU", 1)))
        if shards > cores:
            raise InvalidValue("shards", shards, f"at most {cores}, the cores of the cluster")
        yield RayWorkers(min(count or cores, cores)) if shards == 1 else RayShards(shards)
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
        self._packing = Packing(self.cache)

    def at_most(self, count: int) -> "RayWorkers":
        """Fewer workers."""
        return RayWorkers(min(count, self.count))

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, as they finish."""
        board: Any = ray.remote(Board).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        worker: Any = ray.remote(Worker).options(num_cpus=1, max_restarts=-1, max_task_retries=_RETRIES)
        idle: list[Any] = []
        running: dict[Any, Any] = {}  # the worker of each outcome to come
        numbered = enumerate(iter(tasks), 1)
        try:
            while True:
                for number, task in islice(numbered, self.count - len(running)):
                    free = idle.pop() if idle else worker.remote()
                    running[free.run.remote(board, number, *self._packing.pack(task))] = free
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


def _result(reference: Any) -> Outcome | None:
    try:
        found: Outcome | None = ray.get(reference)
    except ray.exceptions.RayActorError as error:
        raise AlphaEdgeError(f"a Ray worker died {1 + _RETRIES} times with the same task: {error}") from error
    return found
