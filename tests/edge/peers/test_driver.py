"""When a new edge starts to learn."""

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.peers.driver import ALONE, PATIENCE, waits


def test_an_edge_without_outcomes_has_time_to_hear_of_others() -> None:
    assert waits(ALONE, 0.0, behind=False)
    assert not waits(PATIENCE, 0.0, behind=False)


def test_an_edge_with_outcomes_learns_from_them_soon() -> None:
    assert waits(0.0, 0.0, behind=True)
    assert not waits(ALONE, 0.0, behind=True)


@given(st.floats(0, 100), st.floats(0, 100), st.booleans())
def test_whoever_has_heard_of_others_that_know_nothing_starts_soon(before: float, known: float, behind: bool) -> None:
    if known >= ALONE:
        assert not waits(before + known, known, behind=behind)
