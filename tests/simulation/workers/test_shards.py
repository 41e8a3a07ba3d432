"""A fleet in shards has the scores, shares and pulls that it has in one process."""

import copy
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import active_children
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from unittest import mock

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.home import Home
from alphaedge.core.methods import Method, alphaedge, fedweight, method, nops
from alphaedge.core.model import Model
from alphaedge.errors import AlphaEdgeError, InvalidValue
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.config import Settings
from alphaedge.simulation.run_log import Progress
from alphaedge.simulation.run_result import RunResult
from alphaedge.simulation.shards import cut
from alphaedge.simulation.simulate import simulate
from alphaedge.simulation.task import Outcome, Task, WorkerCache, make_data, make_model, run_task
from alphaedge.simulation.workers.protocol import Workers
from alphaedge.simulation.workers.ray_workers import ray_workers
from alphaedge.simulation.workers.shard_processes import ShardProcesses
from alphaedge.simulation.workers.sharded_task import join, one_by_one

from ..fleets import linear, measured, shop

T = TypeVar("T")
SETTINGS = Settings(store=shop(edges=5, events=200), batch_size=10)
TASK = Task(SETTINGS, "m", method("alphaedge"), (0,), None, None)


class InThreads:
    """The shards of a fleet, each in a thread of this process."""

    def __init__(self, rank: int, boxes: list[list["SimpleQueue[Any]"]]) -> None:
        self.rank, self.count, self._boxes = rank, len(boxes), boxes

    def swap(self, messages: Sequence[T]) -> list[T]:
        for rank, message in enumerate(messages):
            self._boxes[self.rank][rank].put(message)
        return [self._boxes[rank][self.rank].get(timeout=100) for rank in range(self.count)]


def in_shards(task: Task, count: int) -> RunResult:
    boxes: list[list[SimpleQueue[Any]]] = [[SimpleQueue() for _ in range(count)] for _ in range(count)]
    found: dict[int, Outcome] = {}

    def run(rank: int) -> None:
        found[rank] = run_task(task, shards=InThreads(rank, boxes))

    data = task.data if task.data is not None else make_data(task.settings, task.seeds[0])
    # Made here: torch's generator is one for all threads.
    models = [make_model(task.factory(data), seed) for seed in range(2 * len(data.streams))]

    def make(_factory: object, seed: int) -> Model:
        return copy.deepcopy(models[seed])

    threads = [Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
    with mock.patch("alphaedge.simulation.task.make_model", make):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return join([found[rank] for rank in range(count)])[0][0]


def close(one: pl.DataFrame, other: pl.DataFrame, values: str) -> bool:
    """Whether two tidy tables have the same rows, and values within the tolerance of executors."""
    keys = [name for name in one.columns if name not in (values, "time")]
    one, other = one.sort(keys), other.sort(keys)
    same = one.select(keys).equals(other.select(keys))
    return same and float((one[values] - other[values]).abs().max() or 0.0) <= 1e-4  # type: ignore[arg-type]


def agree(task: Task, count: int = 3) -> None:
    """One edge at a time, which records nothing and so is the faster way for fleets as small as these."""
    task = replace(task, settings=msgspec.structs.replace(task.settings, executor="one-at-a-time"))
    whole, parts = run_task(task)[0][0], in_shards(task, count)
    assert close(whole.scores, parts.scores, "score")
    assert close(whole.weights, parts.weights, "share")
    assert close(whole.pulls, parts.pulls, "bytes")
    assert (whole.bytes, whole.beyond_start, whole.stopped) == (parts.bytes, parts.beyond_start, parts.stopped)
    assert (whole.honest, whole.edge_batches) == (parts.honest, parts.edge_batches)


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
@pytest.mark.parametrize(
    "tried",
    [
        alphaedge(aggregate_every=5),
        alphaedge(aggregate_every=4, publish="mixed", pull_ahead=2),
        nops(aggregate_every=5, home=Home()),
        fedweight(aggregate_every=5),
        method("noagg"),
    ],
    ids=lambda tried: f"{type(tried.aggregation).__name__}-{tried.publish}",
)
def test_a_fleet_in_shards_agrees_with_one_process(tried: Method, clock: Any) -> None:
    settings = Settings(store=shop(edges=5, events=200), batch_size=10, clock=clock)
    agree(Task(settings, "m", tried, (0,), None, None))


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(delay=2, staleness=1, drop=0.3, down_edges_pull=False),
        Conditions(joins={0: 0.3, 3: 0.5}, leaves={1: 0.6}),
        Conditions(adversaries=0.4, label_noise=0.3),
    ],
    ids=["late", "churn", "hostile"],
)
@pytest.mark.parametrize("publish", ["trained", "mixed"])
def test_they_agree_under_every_condition(conditions: Conditions, publish: Any) -> None:
    settings = Settings(store=shop(edges=5, events=300), batch_size=10, conditions=conditions)
    agree(Task(settings, "m", alphaedge(aggregate_every=5, publish=publish), (0,), None, None), 2)


def test_edges_may_start_from_different_models() -> None:
    settings = Settings(batch_size=5, initial="different")
    agree(Task(settings, "m", fedweight(aggregate_every=5), (1,), measured(4, [30, 10, 25, 5]), linear))


def test_an_edge_that_stops_is_no_candidate_in_other_shards() -> None:
    settings = Settings(batch_size=5, rate=1e20)
    agree(Task(settings, "m", fedweight(aggregate_every=5), (0,), measured(4, 30), linear), 2)


@given(work=st.lists(st.integers(1, 50), min_size=1, max_size=40), data=st.data())
def test_every_edge_is_in_one_shard_and_none_is_empty(work: list[int], data: st.DataObject) -> None:
    shards = data.draw(st.integers(1, len(work)))
    parts = cut(work, shards)
    assert [edge for part in parts for edge in part] == list(range(len(work)))
    assert len(parts) == shards
    assert all(parts)


@pytest.fixture(scope="module")
def on_ray() -> Iterator[Workers]:
    with ray_workers(shards=2) as workers:
        yield workers


@pytest.fixture(params=["processes", "ray"])
def workers(request: pytest.FixtureRequest) -> Workers:
    return ShardProcesses(2) if request.param == "processes" else request.getfixturevalue("on_ray")


def test_shards_in_processes_and_on_ray_agree_with_one_process(workers: Workers) -> None:
    """The progress of the whole fleet arrives."""
    seen: dict[str, Progress] = {}
    settings = Settings(store=shop(edges=5, events=200), batch_size=10)
    found = simulate(settings, methods=["alphaedge"], workers=workers, watch=seen.__setitem__)
    expected = simulate(settings, methods=["alphaedge"])
    assert close(found.scores, expected.scores, "score")
    assert close(found.weights, expected.weights, "share")
    runs = {f"alphaedge/{run.seed}": run.edge_batches for run in expected.outcomes()}
    assert {name: progress.batches for name, progress in seen.items() if name} == runs


def test_a_run_in_shards_can_be_stopped(workers: Workers) -> None:
    long = replace(TASK, settings=Settings(store=shop(edges=5, events=20_000), batch_size=10))
    assert not list(workers.run([long], lambda _, progress: progress.batches > 0))


def test_a_shard_that_dies_is_told_and_ends_the_others() -> None:
    def kill_one(_name: str, _progress: Progress) -> None:
        os.kill(next(child.pid for child in active_children() if child.pid), signal.SIGKILL)

    with pytest.raises(AlphaEdgeError, match="a shard's process died"):
        list(ShardProcesses(2).run([TASK], kill_one))
    assert not active_children()


@pytest.mark.parametrize(
    ("settings", "count", "words"),
    [
        (SETTINGS, 6, "shards: found 6; allowed: at most 5, the number of edges"),
        (
            Settings(store=shop(), conditions=Conditions(adversaries=0.3, attack="random-model")),
            2,
            "shards: found 2; allowed: 1 with attack random-model",
        ),
    ],
)
def test_what_can_not_be_cut_is_refused(settings: Settings, count: int, words: str) -> None:
    task = Task(settings, "m", method("alphaedge"), (0,), None, None)
    with pytest.raises(InvalidValue, match=words):
        list(ShardProcesses(count).run([task], lambda _, __: None))


def test_each_seed_is_a_fleet_of_its_own() -> None:
    task = replace(TASK, seeds=(0, 3))
    assert [one.seeds for one in one_by_one(task, 2, WorkerCache())] == [(0,), (3,)]
