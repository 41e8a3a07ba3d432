"""All edges are neighbours."""

import random

from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.selection import View


def test_everybody_else_is_chosen_in_order() -> None:
    view = View(3, [1], [5, 1, 4], {}, {})
    assert Everybody().choose(view, random.Random(0)) == [1, 4, 5]
    assert Everybody().first(3, [5, 1, 4], random.Random(0)) == [1, 4, 5]


def test_an_edge_is_not_its_own_neighbour() -> None:
    assert Everybody().first(3, [5, 3, 4], random.Random(0)) == [4, 5]
    assert Everybody().choose(View(3, [], [5, 3, 4], {}, {}), random.Random(0)) == [4, 5]
