"""No neighbours."""

import random

from alphaedge.core.rules.selection.nobody import Nobody
from alphaedge.core.selection import View


def test_nobody_is_chosen() -> None:
    assert Nobody().choose(View(3, [1], [5, 1, 4], {}, {}), random.Random(0)) == []
    assert Nobody().first(3, [5, 1, 4], random.Random(0)) == []
