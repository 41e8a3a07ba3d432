"""The best peers so far, and some random ones."""

import random

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.rules.selection.rivals.best_so_far import BestSoFar
from alphaedge.core.selection import View

from ..views import views


def test_by_hand_the_best_of_neighbours_and_remembered_ones_stay_and_the_rest_is_drawn() -> None:
    view = View(0, [1, 2, 3], list(range(1, 30)), {1: 0.3, 2: 0.0, 3: 0.1}, {}, {7: 0.2, 8: 0.05, 40: 0.9})
    drawn = set()
    for seed in range(40):
        chosen = BestSoFar(peers=4, explore=2).choose(view, random.Random(seed))
        assert chosen[:2] == [1, 7], "40 has left"
        assert len(set(chosen)) == 4
        drawn |= set(chosen[2:])
    assert len(drawn) > 15


def test_peers_without_weight_leave_their_places_to_random_ones() -> None:
    view = View(0, [1, 2], list(range(1, 30)), {1: 0.0, 2: 0.0}, {}, {3: 0.0})
    assert len({tuple(BestSoFar(peers=2, explore=0).choose(view, random.Random(s))) for s in range(30)}) > 10


@given(views(), st.integers(1, 6), st.integers(0, 6), st.integers(0, 99))
def test_as_many_as_wanted_or_as_there_are(view: View, peers: int, explore: int, seed: int) -> None:
    chosen = BestSoFar(peers=peers, explore=explore).choose(view, random.Random(seed))
    others = set(view.candidates) - {view.edge}
    assert set(chosen) <= others
    assert len(set(chosen)) == len(chosen) == min(peers, len(others))
