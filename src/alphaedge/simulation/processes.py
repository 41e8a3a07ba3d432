"""Tasks in this process, or spread over several."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from queue import Empty
from typing import Any, final

from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.task import Task, Watch, WorkerCache, run_task


def run_tasks(
    tasks: list[Task], jobs: int, watch: Watch, cache: WorkerCache
) -> Iterator[tuple[list[RunResult], list[str]]]:
    """The outcomes of tasks, with what the user should know, as they finish; ``cache`` is of this process."""
    yield from (_here(tasks, watch, cache) if jobs == 1 else _spread(tasks, jobs, watch))


def _here(tasks: list[Task], watch: Watch, cache: WorkerCache) -> Iterator[tuple[list[RunResult], list[str]]]:
    for task in tasks:
        yield run_task(task, cache, partial(_tell, watch, task))


def _tell(watch: Watch, task: Task, name: str, progress: Progress) -> None:
    watch(f"{name}/{task.seeds[0]}", progress)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # it was killed: nobody waits for what this process does


@final
class _Worker:
    """One process of several: its cache, and its way back to the parent."""

    here: "_Worker"  # of this process; set by ``start``

    def __init__(self, channel: Any) -> None:
        self.channel, self.cache = channel, WorkerCache()

    @classmethod
    def start(cls, channel: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
        threading.Thread(target=_end_with_parent, daemon=True).start()
        cls.here = cls(channel)

    @classmethod
    def run(cls, task: Task) -> tuple[list[RunResult], list[str]]:
        return run_task(task, cls.here.cache, partial(_tell, lambda *report: cls.here.channel.put(report), task))


def _spread(tasks: list[Task], jobs: int, watch: Watch) -> Iterator[tuple[list[RunResult], list[str]]]:
    context = multiprocessing.get_context("spawn")
    channel = context.Queue()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_Worker.start, initargs=(channel,))
    others = set(multiprocessing.active_children())
    with pool, _asked_to_stop() as stop:
        waiting = {pool.submit(_Worker.run, task) for task in tasks}
        try:
            while waiting:
                stopping = stop.is_set()  # then look once more: a result may be on its way
                done, waiting = wait(waiting, timeout=0.2)
                for future in done:
                    yield future.result()
                if stopping:
                    raise KeyboardInterrupt
                _drain(channel, watch)
        finally:
            for future in waiting:
                future.cancel()
            if waiting:
                for process in set(multiprocessing.active_children()) - others:
                    process.terminate()


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
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


def _drain(channel: Any, watch: Watch) -> None:
    while True:
        try:
            name, progress = channel.get_nowait()
        except Empty:
            return
        watch(name, progress)
