"""Moments, membership, and which aggregations may run side by side."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaedge import Conditions
from alphaedge.simulation.batches import batch_times
from alphaedge.simulation.timeline import Timeline, levels

from .fleets import measured


def timeline(
    clock: str = "event-time", conditions: Conditions | None = None, every: int = 4, counts: tuple[int, ...] = (10, 5)
) -> Timeline:
    """Edges whose batches are spread over 10 days, some more densely."""
    data = measured(len(counts), counts, 2, times=lambda edge, events: torch.linspace(0, 10, events).double())
    return Timeline(batch_times(data, 2), clock, conditions or Conditions(), every)  # type: ignore[arg-type]


def test_event_time_runs_from_zero_to_one_over_all_edges() -> None:
    found = timeline().moments
    assert min(float(m.min()) for m in found) == 0
    assert max(float(m.max()) for m in found) == 1
    assert all(bool((m[1:] > m[:-1]).all()) for m in found)
    # A batch of the sparse edge lasts twice as long.
    assert float(found[1][1] - found[1][0]) == pytest.approx(2.1 * float(found[0][1] - found[0][0]), rel=0.1)


def test_by_batch_index_all_edges_are_in_lock_step() -> None:
    long, short = timeline("batch-index").moments
    assert torch.equal(short, long[:5])
    assert long.tolist() == pytest.approx([i / 9 for i in range(10)])


def test_events_of_a_single_moment_do_no_harm() -> None:
    data = measured(2, 3, 2, times=lambda edge, events: torch.full((events,), 7.0).double())
    found = Timeline(batch_times(data, 2), "event-time", Conditions(), 2)
    assert torch.cat(found.moments).tolist() == [0.0] * 6


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_every_fourth_batch_is_for_aggregation(clock: str) -> None:
    found = timeline(clock)
    assert [found.next_aggregation(0, t) for t in range(10)] == [3, 3, 3, 3, 7, 7, 7, 7, None, None]


def test_with_every_batch_for_aggregation_the_next_is_this() -> None:
    found = timeline(every=1)
    assert [found.next_aggregation(1, t) for t in range(5)] == [0, 1, 2, 3, 4]


def test_an_edge_that_joins_late_counts_from_then_on_but_keeps_lock_step_by_batch_index() -> None:
    late = Conditions(joins={0: 0.25})
    own, lock = timeline(conditions=late), timeline("batch-index", late)
    assert own.first[0] == lock.first[0] == 3
    assert own.next_aggregation(0, 3) == 6
    assert lock.next_aggregation(0, 3) == 3
    assert lock.next_aggregation(0, 4) == 7


def test_an_edge_that_leaves_has_no_batch_from_then_on() -> None:
    found = timeline("batch-index", Conditions(leaves={0: 4 / 9}))
    assert found.last[0] == 4
    assert found.next_aggregation(0, 0) == 3
    assert found.next_aggregation(0, 4) is None


def test_an_edge_is_a_member_from_when_it_joins_until_just_before_it_leaves() -> None:
    found = timeline(conditions=Conditions(joins={1: 0.2}, leaves={1: 0.6}))
    assert [found.member(1, m) for m in (0.0, 0.19, 0.2, 0.59, 0.6, 1.0)] == [False, False, True, True, False, False]
    assert found.member(0, 0.0)
    assert found.member(0, 1.0)


def test_what_never_happens_is_later_than_everything() -> None:
    found = timeline()
    assert found.moment(0, None) == float("inf")
    assert found.moment(0, 9) == 1.0


Events = tuple[dict[int, float], dict[int, list[int]]]


@st.composite
def events(draw: st.DrawFn) -> Events:
    """One event for some of n edges, at few distinct moments so that ties are common, each reading some edges."""
    n = draw(st.integers(1, 8))
    edges = draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1))
    when = {e: draw(st.integers(0, 4)) / 4 for e in edges}
    reads = {e: draw(st.lists(st.integers(0, n - 1), unique=True)) for e in edges}
    return when, reads


def outcome(groups: list[list[int]], reads: dict[int, list[int]]) -> dict[int, dict[int, bool]]:
    """What each event finds of those it reads: whether they had published. In a group all read, then all publish."""
    published: set[int] = set()
    found = {}
    for group in groups:
        for edge in group:
            found[edge] = {j: j in published for j in reads[edge]}
        published |= set(group)
    return found


@given(events())
@settings(max_examples=150)
def test_groups_have_the_outcome_of_one_moment_after_the_other(drawn: Events) -> None:
    when, reads = drawn
    in_order = [[e for e in when if when[e] == moment] for moment in sorted(set(when.values()))]
    assert outcome(levels(when, reads), reads) == outcome(in_order, reads)


@given(events())
def test_every_event_is_in_one_group_and_those_of_a_moment_in_the_same(drawn: Events) -> None:
    when, reads = drawn
    groups = levels(when, reads)
    assert sorted(e for group in groups for e in group) == sorted(when)
    place = {e: g for g, group in enumerate(groups) for e in group}
    assert all(place[a] == place[b] for a in when for b in when if when[a] == when[b])


def test_events_that_do_not_read_each_other_run_at_once() -> None:
    assert levels({0: 0.1, 1: 0.2, 2: 0.3}, {0: [3], 1: [3], 2: [3]}) == [[0, 1, 2]]


def test_events_that_read_earlier_ones_wait() -> None:
    moments = {0: 0.1, 1: 0.2, 2: 0.3}
    assert levels(moments, {0: [1], 1: [2], 2: []}) == [[0, 1, 2]]
    assert levels(moments, {0: [], 1: [0], 2: [1]}) == [[0], [1], [2]]
