"""One large fleet in several processes of this machine, each with a shard of its edges."""

import multiprocessing
import pickle
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from typing import Any, Final, TypeVar, final

from alphaedge.errors import AlphaEdgeError, check_number
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.task import Outcome, Task, TaskStopped, Watch, WorkerCache, run_task
from alphaedge.simulation.workers.processes import asked_to_stop, follow_parent
from alphaedge.simulation.workers.sharded_task import join, one_by_one, with_own_storage

T = TypeVar("T")
_POLL_SECONDS: Final = 0.2


@final
class ShardProcesses:
    """Runs tasks one after the other, the fleet of each in so many processes."""

    count = 1

    def __init__(self, shards: int) -> None:
        check_number("shards", shards, low=1, whole=True)
        self.shards, self.cache = shards, WorkerCache()

    def at_most(self, count: int) -> "ShardProcesses":
        """These: they run one task at a time."""
        return self

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, in their order."""
        for task in tasks:
            for single in one_by_one(task, self.shards, self.cache):
                outcome = self._run(single, watch)
                if outcome is not None:
                    yield outcome

    def _run(self, task: Task, watch: Watch) -> Outcome | None:
        context = multiprocessing.get_context("spawn")
        # As bytes, or torch would send each tensor as a file that stays open.
        packed = pickle.dumps(with_own_storage(task))
        ranks = range(self.shards)
        links: dict[int, dict[int, Connection]] = {rank: {} for rank in ranks}
        with ExitStack() as stack:
            for one in ranks:
                for other in range(one):
                    links[one][other], links[other][one] = context.Pipe()
            to_parent = [context.Pipe() for _ in ranks]
            for rank in ranks:
                theirs = to_parent[rank][1]
                process = context.Process(target=_run_shard, args=(packed, rank, links[rank], theirs))
                process.start()
                stack.callback(process.join)
                stack.callback(process.terminate)
                for end in (*links[rank].values(), theirs):
                    end.close()  # here, so that the others notice it if the process dies
            return _collect([mine for mine, _ in to_parent], watch)


def _collect(reports: Sequence[Connection], watch: Watch) -> Outcome | None:
    """Listen to the shards until all are done; None if the task was stopped."""
    found: dict[int, Outcome | None] = {}
    died = False
    with asked_to_stop() as stop:
        while len(found) < len(reports):
            waiting: list[Any] = [end for rank, end in enumerate(reports) if rank not in found]
            for end in wait(waiting, timeout=_POLL_SECONDS):
                assert isinstance(end, Connection)
                try:
                    kind, told = end.recv()
                    if kind == "progress":
                        end.send(bool(watch(*told)))
                except (EOFError, ConnectionError):  # go on: another one may say why
                    kind, told, died = "outcome", None, True
                if kind == "outcome":
                    found[reports.index(end)] = told
                elif kind == "error":
                    raise told
            if stop.is_set():
                raise KeyboardInterrupt
    if died:
        raise AlphaEdgeError("a shard's process died, perhaps for lack of memory")
    parts = [found[rank] for rank in sorted(found)]
    return join([part for part in parts if part is not None]) if None not in parts else None


class _ShardLost(Exception):
    """Another shard's process has ended."""


@final
class _PipeShards:
    """The shards of a fleet, connected by a pipe between each two of them."""

    def __init__(self, rank: int, links: Mapping[int, Connection]) -> None:
        self.rank, self.count, self._links = rank, len(links) + 1, links
        self._ranks = range(self.count)
        self._sender = ThreadPoolExecutor(1)  # all send at once, and a pipe that is full waits for its reader

    def swap(self, messages: Sequence[T]) -> list[T]:
        """See ``Shards``."""
        sending = self._sender.submit(self._send, messages)
        try:
            found = [messages[r] if r == self.rank else pickle.loads(self._links[r].recv_bytes()) for r in self._ranks]
            sending.result()
        except (EOFError, ConnectionError):
            raise _ShardLost from None
        return found

    def _send(self, messages: Sequence[Any]) -> None:
        for rank, link in self._links.items():
            link.send_bytes(pickle.dumps(messages[rank]))


def _run_shard(packed: bytes, rank: int, links: Mapping[int, Connection], parent: Connection) -> None:
    """The whole life of a shard's process."""
    follow_parent()

    def report(name: str, progress: Progress) -> bool:
        parent.send(("progress", (name, progress)))
        return bool(parent.recv())

    try:
        parent.send(("outcome", run_task(pickle.loads(packed), None, report, _PipeShards(rank, links))))
    except TaskStopped:
        parent.send(("outcome", None))
    except _ShardLost:
        pass  # whoever listens to that one says so
    except AlphaEdgeError as error:
        parent.send(("error", error))
    except Exception:
        parent.send(("error", AlphaEdgeError(traceback.format_exc())))
