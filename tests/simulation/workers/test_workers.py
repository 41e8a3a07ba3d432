"""The contract of workers: in this process, in several, and on a real Ray, the same tasks have the same outcomes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from torch import Tensor

from alphaedge.core.aggregation import Aggregation, Mixing, PeerMemory, Weights
from alphaedge.core.methods import method
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.errors import InvalidValue
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.task import Outcome, Task
from alphaedge.simulation.workers.processes import Processes
from alphaedge.simulation.workers.protocol import Here, Workers
from alphaedge.simulation.workers.ray_workers import ray_workers

from ..fleets import linear, measured, shop

SETTINGS = Settings(store=shop(), batch_size=20)


@pytest.fixture(scope="module")
def on_ray() -> Iterator[Workers]:
    with ray_workers(count=2) as workers:
        yield workers


@pytest.fixture(params=["here", "processes", "ray"])
def workers(request: pytest.FixtureRequest) -> Workers:
    made: dict[str, Callable[[], Workers]] = {
        "here": Here,
        "processes": lambda: Processes(2),
        "ray": lambda: request.getfixturevalue("on_ray"),
    }
    return made[request.param]()


def tasks(count: int) -> list[Task]:
    return [Task(SETTINGS, f"alphaedge-{s}", method("alphaedge"), (s,), None, None) for s in range(count)]


def ignore(name: str, progress: Progress) -> None:
    """Watch without doing anything."""


def scores(outcomes: list[Outcome]) -> dict[str, list[float | None]]:
    return {result.method: result.scores["score"].to_list() for results, _ in outcomes for result in results}


def test_tasks_have_the_outcomes_that_they_have_in_one_process(workers: Workers) -> None:
    """Their progress arrives under their names, and a task is taken only when a worker is free for it."""
    data, seen = measured(3, 20), dict[str, Progress]()
    # One at a time: stacking a model of one's own loads torch's compiler in each process.
    settings = Settings(batch_size=5, executor="one-at-a-time")
    own = [Task(settings, f"own-{s}", method("fedweight"), (s,), data, linear) for s in range(2)]
    taken, finished = list[Task](), list[Outcome]()

    def one_by_one() -> Iterator[Task]:
        for task in (*tasks(2), *own):
            taken.append(task)
            assert len(taken) - len(finished) <= workers.count
            yield task

    def watch(name: str, progress: Progress) -> None:
        seen[name] = progress

    for outcome in workers.run(one_by_one(), watch):
        finished.append(outcome)
    assert scores(finished) == scores(list(Here().run([*tasks(2), *own], ignore)))
    assert set(seen) == {"alphaedge-0/0", "alphaedge-1/1", "own-0/0", "own-1/1"}
    assert all(0 < p.batches <= p.total for p in seen.values())


def test_a_task_that_its_watcher_stops_has_no_outcome_and_the_others_have(workers: Workers) -> None:
    long = replace(tasks(1)[0], name="stopped", settings=Settings(store=shop(events=20_000), batch_size=5))

    def watch(name: str, progress: Progress) -> bool:
        return name.startswith("stopped")

    found = scores(list(workers.run([long, *tasks(2)], watch)))
    assert set(found) == {"alphaedge-0", "alphaedge-1"}


def test_a_failure_of_a_task_reaches_the_caller(workers: Workers) -> None:
    wrong = replace(tasks(1)[0], settings=Settings(batch_size=1000, store=shop()))
    with pytest.raises(InvalidValue, match="at least one batch of 1000"):
        list(workers.run([wrong], ignore))


@dataclass(frozen=True)
class Mortal:
    """A plain mean whose process dies the first time that it is asked for weights."""

    marker: Path
    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Uniform().weigh(mixing, weights)

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        mixing.weighted_mean(shares)


def test_a_ray_worker_that_is_killed_changes_no_score(on_ray: Workers, tmp_path: Path) -> None:
    def run(where: Workers, rule: Aggregation) -> dict[str, list[float | None]]:
        chosen = replace(method("uniweight"), aggregation=rule, aggregate_every=4)
        return scores(list(where.run([Task(SETTINGS, "m", chosen, (0,), None, None)], ignore)))

    marker = tmp_path / "killed"
    found = run(on_ray, Mortal(marker))
    assert marker.exists()
    assert found == run(Here(), Uniform())


@pytest.mark.long
def test_a_ray_that_is_not_there_is_refused_with_its_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    done = subprocess.run(
        [sys.executable, "-m", "alphaedge", "simulate", "--engine", "ray", "--ray-address", address],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"ray_address: found '{address}'" in done.stderr
    assert "Traceback" not in done.stderr
