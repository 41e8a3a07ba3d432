"""Tasks in several processes of this machine."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from queue import Empty
from typing import Any, final

from alphaedge.errors import AlphaEdgeError
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.task import Outcome, Task, TaskStopped, Watch, WorkerCache, run_task
from alphaedge.simulation.workers.protocol import Here, Workers


def local_workers(jobs: int) -> Workers:
    """This process, or several."""
    return Here() if jobs == 1 else Processes(jobs)


@final
class Processes:
    """Runs tasks in so many processes at once."""

    def __init__(self, count: int) -> None:
        self.count, self.cache = count, WorkerCache()

    def at_most(self, count: int) -> Workers:
        """Fewer processes, or this one alone."""
        return Here(self.cache) if count == 1 else Processes(min(count, self.count))

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, as they finish; a single task runs in this process, which has all that it needs."""
        rest = iter(tasks)
        ahead = list(islice(rest, 2))
        if len(ahead) < 2:
            yield from Here(self.cache).run(ahead, watch)
            return
        try:
            yield from self._spread(chain(ahead, rest), watch)
        except BrokenProcessPool as error:
            raise AlphaEdgeError("a worker process died, perhaps for lack of memory: try fewer --jobs") from error

    def _spread(self, tasks: Iterator[Task], watch: Watch) -> Iterator[Outcome]:
        context = multiprocessing.get_context("spawn")
        reports, taken, stopped = context.Queue(), context.Value("q", 0), context.Array("q", self.count, lock=False)
        links = (reports, taken, stopped)
        pool = ProcessPoolExecutor(self.count, mp_context=context, initializer=_Worker.start, initargs=links)
        numbered = enumerate(tasks, 1)
        others = set(multiprocessing.active_children())
        waiting: set[Future[Outcome | None]] = set()
        with pool, asked_to_stop() as stop:
            try:
                while True:
                    free = islice(numbered, self.count - len(waiting))
                    waiting |= {pool.submit(_Worker.run, number, task) for number, task in free}
                    if not waiting:
                        return
                    stopping = stop.is_set()  # then look once more: a result may be on its way
                    done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                    _drain(reports, watch, stopped)
                    yield from (outcome for future in done if (outcome := future.result()) is not None)
                    if stopping:
                        raise KeyboardInterrupt
            finally:
                for future in waiting:
                    future.cancel()
                if waiting:
                    for process in set(multiprocessing.active_children()) - others:
                        process.terminate()


@final
class _Worker:
    """One process of several: its cache, and its way back to the parent.

    reports: where progress goes. stopped: for each process, the number of the task that it is to stop.
    """

    here: "_Worker"  # of this process; set by ``start``

    def __init__(self, place: int, reports: Any, stopped: Any) -> None:
        self.place, self.reports, self.stopped = place, reports, stopped
        self.cache = WorkerCache()

    @classmethod
    def start(cls, reports: Any, taken: Any, stopped: Any) -> None:
        follow_parent()
        reports.cancel_join_thread()  # a parent that has gone on reads no more reports
        with taken.get_lock():
            place, taken.value = taken.value, taken.value + 1
        cls.here = cls(place, reports, stopped)

    @classmethod
    def run(cls, number: int, task: Task) -> Outcome | None:
        def report(name: str, progress: Progress) -> bool:
            cls.here.reports.put((cls.here.place, number, name, progress))
            return bool(cls.here.stopped[cls.here.place] == number)

        try:
            return run_task(task, cls.here.cache, report)
        except TaskStopped:
            return None


def follow_parent() -> None:
    """Leave Ctrl-C to the parent of this process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # it was killed: nobody waits for what this process does


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Ctrl-C as a flag: an exception in the midst of things could lose a run that has just finished."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # Ctrl-C never arrives here
        return
    before = signal.signal(signal.SIGINT, lambda _, __: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _drain(reports: Any, watch: Watch, stopped: Any) -> None:
    while True:
        try:
            place, number, name, progress = reports.get_nowait()
        except Empty:
            return
        if watch(name, progress):
            stopped[place] = number
