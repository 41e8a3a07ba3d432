"""Batch size and E follow from rows per edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.simulation.pace import ROUNDS, suited_pace


@given(st.integers(1, 10**7), st.sampled_from(["regress", "classify"]))
def test_edges_aggregate_thirty_times_where_their_events_allow_it(events: int, task: str) -> None:
    size, every = suited_pace(events, task)  # type: ignore[arg-type]
    assert 10 <= size <= 500
    assert 2 <= every <= 5
    assert events // (size * every) >= ROUNDS or (every == 2 and size == {"regress": 10, "classify": 20}[task])


@pytest.mark.parametrize(
    ("events", "pace"), [(300, (10, 2)), (1500, (10, 5)), (6000, (40, 5)), (15_000, (50, 5)), (600_000, (200, 5))]
)
def test_batches_grow_with_the_table(events: int, pace: tuple[int, int]) -> None:
    assert suited_pace(events, "regress") == pace
