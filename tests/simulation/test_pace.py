"""The batch size of a table follows from rows per edge."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.methods import alphaedge
from alphaedge.simulation.pace import ROUNDS, SMALLEST_BATCH, suited_batch_size


@given(st.integers(1, 10**7), st.sampled_from(["regress", "classify"]))
def test_edges_aggregate_thirty_times_where_their_events_allow_it(
    events: int, task: Literal["regress", "classify"]
) -> None:
    size = suited_batch_size(events, task)
    assert 10 <= size <= 500
    assert events // (size * alphaedge().aggregate_every) >= ROUNDS or size == SMALLEST_BATCH[task]


@pytest.mark.parametrize(("events", "size"), [(300, 10), (1500, 10), (6000, 40), (15_000, 50), (600_000, 200)])
def test_batches_grow_with_the_table(events: int, size: int) -> None:
    assert suited_batch_size(events, "regress") == size
