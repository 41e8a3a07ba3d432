"""A task whose fleet is cut into shards: what each shard runs, and one outcome out of theirs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from alphaedge.data.stream import Dataset, Stream
from alphaedge.errors import InvalidValue
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.task import Outcome, Task, WorkerCache


def one_by_one(task: Task, shards: int, cache: WorkerCache) -> Iterator[Task]:
    """The seeds of a task, each as a task of its own; refuses what can't be cut into so many shards."""
    attack = task.settings.conditions.make_attack()
    if task.settings.conditions.adversaries and not attack.flips_labels:
        raise InvalidValue("shards", shards, f"1 with attack {task.settings.conditions.attack}, whose edges conspire")
    if task.checkpoints is not None:
        raise InvalidValue("shards", shards, "1 with checkpoints")
    if task.settings.memory is not None:
        raise InvalidValue("shards", shards, "1 with a limit of memory")
    for seed in task.seeds:
        data: Dataset = task.data if task.data is not None else cache.data(task.settings, seed)
        if len(data.streams) < shards:
            raise InvalidValue("shards", shards, f"at most {len(data.streams)}, the number of edges")
        yield replace(task, seeds=(seed,))


def with_own_storage(task: Task) -> Task:
    """The task with data that can be pickled: of a tensor that is a part of another one, all of that would be."""
    if task.data is None:
        return task
    streams = tuple(
        Stream({name: x.clone() for name, x in s.inputs.items()}, s.labels.clone(), s.times.clone())
        for s in task.data.streams
    )
    return replace(task, data=replace(task.data, streams=streams))


def join(parts: Sequence[Outcome]) -> Outcome:
    """The outcome of one run, out of those of its shards in their order."""
    results = [RunResult.joined([found[0] for found, _ in parts])]
    return results, list(dict.fromkeys(note for _, notes in parts for note in notes))
