"""What edges may know when they choose peers, for the tests of selection rules."""

import random

from hypothesis import strategies as st

from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.random import Random
from alphaedge.core.selection import View

share = st.one_of(st.just(0.0), st.floats(0.001, 1))


@st.composite
def views(draw: st.DrawFn, most: int = 12) -> View:
    """Any view: neighbours may have left or been excluded, others may speak of edges that one does not know."""
    n = draw(st.integers(2, most))
    edge = draw(st.integers(0, n - 1))
    others = [j for j in range(n) if j != edge]
    candidates = draw(st.lists(st.sampled_from(range(n)), unique=True))  # perhaps with oneself
    neighbours = draw(st.lists(st.sampled_from(others), unique=True, max_size=6))
    shares = {j: draw(share) for j in neighbours}
    topology = {
        j: draw(st.dictionaries(st.integers(0, n + 1), share, max_size=6))
        for j in draw(st.lists(st.sampled_from(range(n)), unique=True))
    }
    former = [j for j in others if j not in neighbours]
    remembered = {j: draw(share) for j in former if draw(st.booleans())}
    return View(edge, neighbours, candidates, shares, topology, remembered)


any_greedy = st.builds(
    Greedy,
    peers=st.integers(1, 6),
    replace=st.integers(0, 4),
    keep_better=st.booleans(),
    useless=st.sampled_from([0.0, 0.02, 0.5]),
)


any_rule = st.one_of(any_greedy, st.builds(Random, peers=st.integers(1, 6)), st.builds(Fixed, peers=st.integers(1, 6)))


def settled(n: int, rule: Greedy, seed: int) -> View:
    """The view of edge 0 with K neighbours, all of them there, among n edges; it remembers some of the others."""
    rng = random.Random(seed)
    neighbours = rng.sample(range(1, n), rule.peers)
    shares = {j: rng.choice([0.0, 0.1, 0.2, rng.random()]) for j in neighbours}
    topology = {}
    for j in range(n):
        others = [k for k in range(n) if k != j]
        topology[j] = {k: rng.choice([0.0, rng.random()]) for k in rng.sample(others, rule.peers)}
    remembered = {k: rng.random() for k in range(1, n) if k not in neighbours and rng.random() < 0.4}
    return View(0, neighbours, list(range(1, n)), shares, topology, remembered)
