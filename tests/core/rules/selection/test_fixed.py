"""Random peers, drawn once."""

import random

from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.selection import View

from .views import views


@given(views(), st.integers(1, 6), st.integers(0, 99))
def test_fixed_peers_stay_as_long_as_they_are_there(view: View, peers: int, seed: int) -> None:
    chosen = Fixed(peers=peers).choose(view, random.Random(seed))
    staying = [j for j in view.neighbours if j in set(view.candidates)]
    assert chosen[: len(staying)] == staying
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(view.candidates)
