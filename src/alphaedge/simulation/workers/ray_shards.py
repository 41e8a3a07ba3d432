"""One large fleet on a Ray cluster, its shards on as many actors (extra "ray")."""

from collections.abc import Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Final, TypeVar, final

import ray

from alphaedge.errors import AlphaEdgeError
from alphaedge.simulation.task import Outcome, Task, Watch, WorkerCache
from alphaedge.simulation.workers.ray_actors import Board, Packing, SharedData, Worker
from alphaedge.simulation.workers.sharded_task import join, one_by_one

T = TypeVar("T")
_POLL_SECONDS: Final = 0.2
_START_SECONDS: Final = 120.0  # for all shards to find a place in the cluster
_RETRIES: Final = 5  # of one run, each after the death of a shard


@final
class RayShards:
    """Runs tasks one after the other, the fleet of each on so many actors."""

    count = 1

    def __init__(self, shards: int) -> None:
        self.shards, self.cache = shards, WorkerCache()
        self._packing = Packing(self.cache)

    def at_most(self, count: int) -> "RayShards":
        """These: they run one task at a time."""
        return self

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, in their order."""
        for task in tasks:
            for single in one_by_one(task, self.shards, self.cache):
                outcome = self._retry(single, watch)
                if outcome is not None:
                    yield outcome

    def _retry(self, task: Task, watch: Watch, retries: int = _RETRIES) -> Outcome | None:
        """Run a task; when a shard dies, all begin again."""
        try:
            return self._run(task, watch)
        except ray.exceptions.RayActorError as error:
            if not retries:
                raise AlphaEdgeError(f"a shard died {1 + _RETRIES} times with the same task: {error}") from error
        return self._retry(task, watch, retries - 1)

    def _run(self, task: Task, watch: Watch) -> Outcome | None:
        board: Any = ray.remote(Board).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        shard: Any = ray.remote(_Shard).options(num_cpus=1, max_concurrency=2)  # one to run, one to take messages
        actors = [shard.remote(rank, self.shards) for rank in range(self.shards)]
        try:
            ray.get([actor.is_ready.remote() for actor in actors], timeout=_START_SECONDS)
            parts = [actor.run.remote(actors, board, *self._packing.pack(task)) for actor in actors]
            waiting = list(parts)
            while waiting:
                done, waiting = ray.wait(waiting, timeout=_POLL_SECONDS)
                ray.get(done)  # raises, if one has died
                for number, (name, progress) in ray.get(board.take.remote()).items():
                    if watch(name, progress):
                        board.stop.remote(number)
            found = ray.get(parts)
            return None if None in found else join(found)
        except ray.exceptions.GetTimeoutError:
            raise AlphaEdgeError(f"the cluster has no room for {self.shards} shards, which need a core each") from None
        finally:
            for actor in (*actors, board):
                ray.kill(actor)


@final
class _Shard:
    """One actor of those that run a fleet together. While one thread runs, another takes the messages of the others."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.inbox: list[SimpleQueue[tuple[int, Any]]] = [SimpleQueue() for _ in range(count)]

    def run(self, actors: list[Any], board: Any, task: Task, key: bytes, shared: SharedData | None) -> Outcome | None:
        return Worker().run(board, 0, task, key, shared, _ActorShards(self.rank, actors, self.inbox))

    def is_ready(self) -> bool:
        return True

    def take(self, rank: int, turn: int, message: Any) -> None:
        self.inbox[rank].put((turn, message))


@final
class _ActorShards:
    """The shards of a fleet, each an actor."""

    def __init__(self, rank: int, actors: list[Any], inbox: "list[SimpleQueue[tuple[int, Any]]]") -> None:
        self.rank, self.count, self._actors, self._inbox = rank, len(actors), actors, inbox
        self._turn = 0
        self._early: list[dict[int, Any]] = [{} for _ in actors]  # messages that have overtaken others, by turn
        self._sent: list[Any] = []

    def swap(self, messages: Sequence[T]) -> list[T]:
        """See ``Shards``."""
        ray.get(self._sent)  # raises, if one was not delivered
        self._turn += 1
        others = [rank for rank in range(self.count) if rank != self.rank]
        self._sent = [self._actors[rank].take.remote(self.rank, self._turn, messages[rank]) for rank in others]
        return [messages[rank] if rank == self.rank else self._receive(rank) for rank in range(self.count)]

    def _receive(self, rank: int) -> Any:
        while self._turn not in self._early[rank]:
            turn, message = self._inbox[rank].get()
            self._early[rank][turn] = message
        return self._early[rank].pop(self._turn)
