"""Random peers, drawn again each time."""

import random

from alphaedge.core.rules.selection.random import Random
from alphaedge.core.selection import View


def test_random_peers_are_drawn_anew_and_evenly() -> None:
    view = View(0, [1, 2], list(range(1, 11)), {}, {})
    counts = dict.fromkeys(range(1, 11), 0)
    for seed in range(1000):
        for j in Random(peers=3).choose(view, random.Random(seed)):
            counts[j] += 1
    assert min(counts.values()) > 230
    assert max(counts.values()) < 370
