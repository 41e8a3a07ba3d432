"""The paper's selection: the weakest go, the best by two hops come, and standing still finds nobody."""

import copy
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.rules.selection.greedy import Greedy, two_hop_scores
from alphaedge.core.selection import View
from alphaedge.errors import InvalidValue

from .views import any_greedy, settled, views


@given(views(), any_greedy, st.integers(0, 99))
def test_greedy_chooses_candidates_each_once_and_never_itself(view: View, rule: Greedy, seed: int) -> None:
    chosen = rule.choose(view, random.Random(seed))
    assert view.edge not in chosen
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(view.candidates)


@given(views(), any_greedy, st.integers(0, 99))
def test_choosing_leaves_the_view_as_it_was(view: View, rule: Greedy, seed: int) -> None:
    kept = copy.deepcopy(view)
    rule.choose(view, random.Random(seed))
    assert view == kept


_unconditional = st.builds(
    Greedy,
    peers=st.integers(1, 6),
    replace=st.integers(0, 6),
    keep_better=st.just(False),
    useless=st.just(0.0),
)


_keeping = st.builds(Greedy, peers=st.integers(1, 6), replace=st.integers(1, 4), useless=st.just(0.0))


@given(st.integers(8, 20), _unconditional, st.integers(0, 999))
def test_the_weakest_really_leave_and_the_rest_stay(n: int, rule: Greedy, seed: int) -> None:
    view = settled(n, rule, seed)
    chosen = rule.choose(view, random.Random(seed))
    gone, stay = set(view.neighbours) - set(chosen), set(view.neighbours) & set(chosen)
    assert len(gone) == min(rule.replace, rule.peers, n - 1 - rule.peers)
    if gone and stay:
        assert max(view.shares[j] for j in gone) <= min(view.shares[j] for j in stay)


@given(st.integers(8, 20), _unconditional, st.integers(0, 999))
def test_the_best_scored_come_first_and_the_unknown_fill_up(n: int, rule: Greedy, seed: int) -> None:
    view = settled(n, rule, seed)
    fresh = set(rule.choose(view, random.Random(seed))) - set(view.neighbours)
    scores = two_hop_scores(view)
    scored, unknown = fresh & set(scores), fresh - set(scores)
    assert len(scored) == min(len(fresh), len(scores))
    left = set(scores) - scored
    if scored and left:
        assert min(scores[k] for k in scored) >= max(scores[k] for k in left)
    if unknown:
        assert not left


@given(st.integers(8, 20), _keeping, st.integers(0, 999))
def test_nobody_gives_way_to_an_edge_that_is_remembered_as_weaker(n: int, rule: Greedy, seed: int) -> None:
    view = settled(n, rule, seed)
    chosen = rule.choose(view, random.Random(seed))
    gone, fresh = set(view.neighbours) - set(chosen), set(chosen) - set(view.neighbours)
    assert len(gone) == len(fresh) <= rule.replace
    weakest = sorted(view.shares[j] for j in view.neighbours)[: rule.replace]
    assert all(view.shares[j] <= weakest[-1] for j in gone)
    for k in fresh & set(view.remembered):
        assert view.remembered[k] > min(view.shares[j] for j in gone)


def test_where_all_others_are_remembered_as_weaker_the_neighbours_stay() -> None:
    remembered = dict.fromkeys(range(3, 9), 0.1)
    view = View(0, [1, 2], list(range(1, 9)), {1: 0.5, 2: 0.2}, {1: {7: 0.9}}, remembered)
    assert Greedy(peers=2).choose(view, random.Random(0)) == [1, 2]
    assert Greedy(peers=2, keep_better=False).choose(view, random.Random(0)) == [1, 7]


@given(st.integers(14, 24), st.integers(1, 5), st.integers(0, 2), st.floats(0, 0.3), st.integers(0, 999))
def test_neighbours_below_the_useless_share_leave_however_many_they_are(
    n: int, peers: int, least: int, useless: float, seed: int
) -> None:
    rule = Greedy(peers=peers, replace=least, keep_better=False, useless=useless)
    view = settled(n, rule, seed)
    gone = set(view.neighbours) - set(rule.choose(view, random.Random(seed)))
    below = {j for j in view.neighbours if view.shares[j] < useless}
    assert below <= gone
    assert len(gone) == max(len(below), min(least, peers))


def test_an_edge_that_is_remembered_as_better_comes_back() -> None:
    view = View(0, [1, 2], list(range(1, 9)), {1: 0.5, 2: 0.2}, {1: {6: 0.9, 7: 0.8}}, {6: 0.1, 7: 0.3})
    assert Greedy(peers=2).choose(view, random.Random(0)) == [1, 7]


def test_where_those_recommended_are_remembered_as_weaker_an_unknown_edge_is_tried() -> None:
    recommended = {6: 0.9, 7: 0.8, 8: 0.7}
    view = View(0, [1, 2], list(range(1, 30)), {1: 0.5, 2: 0.2}, {1: recommended}, dict.fromkeys(recommended, 0.1))
    for seed in range(10):
        chosen = Greedy(peers=2).choose(view, random.Random(seed))
        assert chosen[0] == 1
        assert chosen[1] not in {2, 6, 7, 8}, "it stood still, or went back to an edge that it knows to be weaker"


@given(st.integers(3, 12), st.integers(0, 999))
def test_two_hop_scores_are_the_product_of_two_rows_of_the_weight_matrix(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    peers = int(rng.integers(1, n))
    weights = np.zeros((n, n))
    for i in range(n):
        chosen = rng.choice([j for j in range(n) if j != i], size=min(peers, n - 1), replace=False)
        raw = rng.random(len(chosen) + 1) * rng.integers(0, 2, len(chosen) + 1)
        weights[i, chosen] = raw[1:] / max(raw.sum(), 1e-9)
    listed = {i: {int(j): float(weights[i, j]) for j in np.flatnonzero(weights[i])} for i in range(n)}
    neighbours = list(listed[0])
    view = View(0, neighbours, list(range(1, n)), listed[0], listed)
    brute = weights[0] @ weights
    expected = {k: brute[k] for k in range(1, n) if k not in neighbours and brute[k] > 0}
    found = two_hop_scores(view)
    assert found.keys() == expected.keys()
    assert all(found[k] == pytest.approx(expected[k]) for k in found)


def test_a_hand_made_example_of_two_hops() -> None:
    topology = {1: {3: 0.5, 2: 0.2}, 2: {3: 0.1, 4: 0.8, 0: 0.1}, 5: {6: 1.0}}
    view = View(0, [1, 2], [1, 2, 3, 4, 5, 6], {1: 0.6, 2: 0.1}, topology)
    assert two_hop_scores(view) == pytest.approx({3: 0.6 * 0.5 + 0.1 * 0.1, 4: 0.1 * 0.8})
    assert sorted(Greedy(peers=2).choose(view, random.Random(0))) == [1, 3]


def test_an_edge_that_has_left_is_not_recommended() -> None:
    view = View(0, [1], [1, 3, 4], {1: 0.5}, {1: {2: 0.9, 3: 0.1}})
    assert two_hop_scores(view) == pytest.approx({3: 0.05})


def test_a_silent_neighbour_that_is_still_a_candidate_may_stay() -> None:
    view = View(0, [1, 2, 3], list(range(1, 9)), {1: 0.5, 2: 0.4, 3: 0.01}, {1: {7: 0.3}})  # nothing is heard of 2
    assert Greedy(peers=3).choose(view, random.Random(0)) == [1, 2, 7]


def test_a_neighbour_that_has_left_makes_room_beside_the_one_that_is_replaced() -> None:
    view = View(0, [1, 2, 3], [2, 3, 4, 5, 6, 7], {1: 0.9, 2: 0.4, 3: 0.1}, {})
    for seed in range(20):
        chosen = Greedy(peers=3).choose(view, random.Random(seed))
        assert chosen[0] == 2
        assert set(chosen[1:]) <= {4, 5, 6, 7}


def test_without_two_hop_knowledge_greedy_explores_at_random() -> None:
    view = View(0, [1, 2, 3], list(range(1, 30)), {1: 0.5, 2: 0.3, 3: 0.2}, {})
    newcomers = set()
    for seed in range(30):
        chosen = Greedy(peers=3).choose(view, random.Random(seed))
        assert chosen[:2] == [1, 2]
        assert chosen != [1, 2, 3], "it stood still"
        newcomers.add(chosen[2])
    assert len(newcomers) > 10


def test_neighbours_of_weight_zero_recommend_nobody_so_others_are_tried_at_random() -> None:
    view = View(0, [1, 2], list(range(1, 20)), {1: 0.0, 2: 0.0}, {1: {5: 1.0}, 2: {5: 1.0}})
    assert two_hop_scores(view) == {}
    assert len({Greedy(peers=2).choose(view, random.Random(s))[1] for s in range(30)}) > 5


def test_ties_are_broken_by_dice_and_not_by_number() -> None:
    view = View(0, [1, 2, 3], list(range(1, 9)), dict.fromkeys([1, 2, 3], 0.25), {1: {6: 0.5, 7: 0.5, 8: 0.5}})
    gone, come = set(), set()
    for seed in range(60):
        chosen = set(Greedy(peers=3).choose(view, random.Random(seed)))
        gone |= {1, 2, 3} - chosen
        come |= chosen - {1, 2, 3}
    assert gone == {1, 2, 3}
    assert come == {6, 7, 8}


def test_replacing_nobody_keeps_the_neighbours() -> None:
    view = View(0, [4, 2, 9], list(range(1, 20)), {4: 0.1, 2: 0.1, 9: 0.1}, {4: {5: 1.0}})
    assert Greedy(peers=3, replace=0).choose(view, random.Random(0)) == [4, 2, 9]


def test_greedy_starts_with_random_peers() -> None:
    starts = [tuple(Greedy(peers=3).first(0, list(range(1, 40)), random.Random(s))) for s in range(20)]
    assert len(set(starts)) > 15
    assert all(len(set(s)) == 3 for s in starts)


def test_a_whole_number_written_as_a_float_is_refused_or_works() -> None:
    view = View(0, [1, 2], list(range(1, 9)), {1: 0.5, 2: 0.1}, {})
    try:
        rule = Greedy(peers=2.0)
    except InvalidValue:
        return
    assert len(rule.choose(view, random.Random(0))) == 2
