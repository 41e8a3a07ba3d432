"""Where the tasks of a simulation run.

``Here`` runs them one after the other in this process, ``Processes`` (simulation.workers.processes) in several, and
``RayWorkers`` (simulation.workers.ray_workers) on a Ray cluster. ``ShardProcesses`` and ``RayShards`` spread the fleet
of each task over several.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, final

from alphaedge.simulation.task import Outcome, Task, TaskStopped, Watch, WorkerCache, run_task


class Workers(Protocol):
    """Runs tasks."""

    @property
    def count(self) -> int:
        """How many tasks run at once."""
        ...

    @property
    def cache(self) -> WorkerCache:
        """Of this process: the data that tasks are planned with."""
        ...

    def at_most(self, count: int) -> "Workers":
        """The same, with at most so many tasks at once."""
        ...

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, as they finish; a task is taken when a worker is free for it.

        ``watch`` is called with "name/first seed" of a task and its progress, in this process. Where it returns
        True, the task stops and has no outcome.
        """
        ...


@final
class Here:
    """Runs tasks in this process, one after the other."""

    count = 1

    def __init__(self, cache: WorkerCache | None = None) -> None:
        self.cache = cache or WorkerCache()

    def at_most(self, count: int) -> "Here":
        """This one: it runs one task at a time."""
        return self

    def run(self, tasks: Iterable[Task], watch: Watch) -> Iterator[Outcome]:
        """The outcomes of tasks, in their order."""
        for task in tasks:
            try:
                outcome = run_task(task, self.cache, watch)
            except TaskStopped:
                continue
            yield outcome
