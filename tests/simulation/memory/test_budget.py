"""A limit of memory: what is planned within it, what is refused, and that results do not depend on it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import InvalidValue, Store, simulate
from alphaedge.simulation.memory.budget import SMALLEST_BLOCK, Plan, fit
from alphaedge.simulation.memory.need import PROCESS, Need
from alphaedge.simulation.memory.size import parse_size, show_size
from alphaedge.simulation.workers.processes import Processes
from alphaedge.simulation.workers.shard_processes import ShardProcesses

MB = 2**20
NEED = Need(models=400 * MB, published=200 * MB, events=0, scores=100 * MB, training=MB, mixing=MB, peers=5)
WISH = Plan(4, 5, 256)


@pytest.mark.parametrize(("text", "size"), [("8G", 2**33), ("512M", 2**29), ("1.5t", 1.5 * 2**40), ("4 GiB", 2**32)])
def test_sizes_are_read_as_people_write_them(text: str, size: float) -> None:
    assert parse_size("memory", text) == size


@pytest.mark.parametrize("text", ["", "much", "8X", "-1G", "0G", "G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="such as 8G"):
        simulate(memory=text, methods=["noagg"])


@given(st.integers(0, 40_000), st.integers(1, 8), st.integers(1, 6))
def test_a_plan_is_within_its_budget_and_as_large_as_that_allows(budget: int, jobs: int, stack: int) -> None:
    wish = Plan(jobs, stack, 256)
    try:
        plan = fit(budget * MB, NEED, wish)
    except InvalidValue:
        assert NEED.total(SMALLEST_BLOCK) > budget * MB
        return
    assert plan.jobs * NEED.total(plan.block, plan.stack) <= budget * MB
    assert plan <= wish
    smaller_than_could_be = [
        (plan.block < 256, plan._replace(block=2 * plan.block)),
        (plan.block == 256 and plan.jobs < jobs, plan._replace(jobs=plan.jobs + 1)),
        (plan.jobs == jobs and plan.stack < stack, plan._replace(stack=plan.stack + 1)),
    ]
    for larger in (one for applies, one in smaller_than_could_be if applies):
        assert larger.jobs * NEED.total(larger.block, larger.stack) > budget * MB


def test_seeds_come_apart_first_then_tasks_wait_then_steps_shrink() -> None:
    sizes = [NEED.total(256, 5) * 4, NEED.total(256) * 4, NEED.total(256) * 2, NEED.total(64)]
    assert [fit(size, NEED, WISH) for size in sizes] == [WISH, Plan(4, 1, 256), Plan(2, 1, 256), Plan(1, 1, 64)]


def test_a_budget_that_is_too_small_is_refused_with_what_is_needed() -> None:
    with pytest.raises(InvalidValue) as caught:
        fit(NEED.total(SMALLEST_BLOCK) - 1, NEED, WISH)
    assert "models 400M, publications 200M" in caught.value.allowed
    least = caught.value.allowed.split()[2]
    assert fit(parse_size("memory", least), NEED, WISH).jobs == 1


def test_sizes_are_shown_short() -> None:
    assert [show_size(x) for x in (PROCESS, 3.25 * 2**30)] == ["315M", "3.3G"]


def test_a_limit_changes_nothing_but_memory() -> None:
    store = Store(edges=4, clusters=2, events=300, items=20, users=10, categories=4)
    runs = [
        simulate(store=store, methods=["alphaedge", "noagg"], seeds=2, memory=size) for size in (None, "600M", "8G")
    ]
    for name in ("alphaedge", "noagg"):
        means = [run.summary()["methods"][name]["mean"] for run in runs]
        assert means[1] == pytest.approx(means[0], abs=1e-4)
        assert means[2] == pytest.approx(means[0], abs=1e-4)


def test_fewer_processes_can_do_the_same_work() -> None:
    store = Store(edges=3, clusters=1, events=200, items=20, users=10, categories=4)
    # One at a time, since stacking loads torch's compiler in each process.
    shared: dict[str, Any] = {"store": store, "methods": ["noagg", "fedweight"], "executor": "one-at-a-time"}
    whole = simulate(**shared)
    limited = simulate(**shared, memory="1G", workers=Processes(8))
    assert limited.scores.sort("method", "edge", "batch").equals(whole.scores.sort("method", "edge", "batch"))


def test_shards_have_no_limit_of_memory() -> None:
    with pytest.raises(InvalidValue, match="1 with a limit of memory"):
        simulate(store=Store(edges=4, events=200), methods=["noagg"], memory="4G", workers=ShardProcesses(2))
