"""A ring of edges."""

import random

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.rules.selection.rivals.ring import Ring
from alphaedge.core.selection import View


def _beside(edge: int, candidates: list[int]) -> list[int]:
    return Ring().first(edge, candidates, random.Random(0))


def test_by_hand_edges_pull_from_the_two_beside_them_and_the_ends_meet() -> None:
    assert _beside(2, [0, 1, 3, 4]) == [1, 3]
    assert _beside(0, [1, 2, 3, 4]) == [4, 1]
    assert _beside(4, [0, 1, 2, 3]) == [3, 0]


def test_the_ring_closes_where_an_edge_has_left() -> None:
    view = View(2, [1, 3], [0, 1, 4], {1: 0.3, 3: 0.3}, {})
    assert Ring().choose(view, random.Random(0)) == [1, 4]


def test_two_edges_have_each_other_and_one_has_nobody() -> None:
    assert _beside(0, [0, 1]) == [1]
    assert _beside(0, [0]) == []


@given(st.sets(st.integers(0, 60), min_size=3, max_size=20))
def test_links_go_both_ways(edges: set[int]) -> None:
    chosen = {e: _beside(e, sorted(edges)) for e in edges}
    assert all(e in chosen[j] for e, beside in chosen.items() for j in beside)
    assert all(len(beside) == 2 for beside in chosen.values())
