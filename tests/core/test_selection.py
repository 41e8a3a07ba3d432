"""Peers are chosen from those one may have, the weakest go, the best come, and standing still finds nobody."""

import copy
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.selection import Everybody, Fixed, Greedy, Nobody, Random, View, two_hop_scores
from alphaedge.errors import InvalidValue

_share = st.one_of(st.just(0.0), st.floats(0.001, 1))


@st.composite
def views(draw: st.DrawFn, most: int = 12) -> View:
    """Any view: neighbours may have left or been excluded, others may speak of edges that one does not know."""
    n = draw(st.integers(2, most))
    edge = draw(st.integers(0, n - 1))
    others = [j for j in range(n) if j != edge]
    candidates = draw(st.lists(st.sampled_from(range(n)), unique=True))  # perhaps with oneself
    neighbours = draw(st.lists(st.sampled_from(others), unique=True, max_size=6))
    shares = {j: draw(_share) for j in neighbours}
    topology = {
        j: draw(st.dictionaries(st.integers(0, n + 1), _share, max_size=6))
        for j in draw(st.lists(st.sampled_from(range(n)), unique=True))
    }
    former = [j for j in others if j not in neighbours]
    remembered = {j: draw(_share) for j in former if draw(st.booleans())}
    return View(edge, neighbours, candidates, shares, topology, remembered)


_greedy = st.builds(
    Greedy,
    peers=st.integers(1, 6),
    replace=st.integers(0, 4),
    keep_better=st.booleans(),
    useless=st.sampled_from([0.0, 0.02, 0.5]),
)
_rules = st.one_of(_greedy, st.builds(Random, peers=st.integers(1, 6)), st.builds(Fixed, peers=st.integers(1, 6)))


def _others(view: View) -> list[int]:
    return sorted(set(view.candidates) - {view.edge})


def _settled(n: int, rule: Greedy, seed: int) -> View:
    """The view of edge 0 with K neighbours, all of them there, in a fleet of n; it remembers some of the others."""
    rng = random.Random(seed)
    neighbours = rng.sample(range(1, n), rule.peers)
    shares = {j: rng.choice([0.0, 0.1, 0.2, rng.random()]) for j in neighbours}
    topology = {}
    for j in range(n):
        others = [k for k in range(n) if k != j]
        topology[j] = {k: rng.choice([0.0, rng.random()]) for k in rng.sample(others, rule.peers)}
    remembered = {k: rng.random() for k in range(1, n) if k not in neighbours and rng.random() < 0.4}
    return View(0, neighbours, list(range(1, n)), shares, topology, remembered)


@given(views(), _greedy, st.integers(0, 99))
def test_greedy_never_picks_itself_a_duplicate_or_anybody_who_is_no_candidate(
    view: View, rule: Greedy, seed: int
) -> None:
    chosen = rule.choose(view, random.Random(seed))
    assert view.edge not in chosen
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(view.candidates)


@given(views(), _rules, st.integers(0, 99))
def test_as_many_peers_as_wanted_or_as_there_are(view: View, rule: Greedy | Random | Fixed, seed: int) -> None:
    if isinstance(rule, Fixed):
        view = replace(view, neighbours=view.neighbours[: rule.peers])
    expected = min(rule.peers, len(_others(view)))
    assert len(rule.choose(view, random.Random(seed))) == expected
    first = rule.first(view.edge, view.candidates, random.Random(seed))
    assert len(first) == len(set(first)) == expected
    assert view.edge not in first


@given(views(), _rules, st.integers(0, 99))
def test_the_same_dice_choose_the_same_peers(view: View, rule: Greedy | Random | Fixed, seed: int) -> None:
    assert rule.choose(view, random.Random(seed)) == rule.choose(view, random.Random(seed))
    first = [rule.first(view.edge, view.candidates, random.Random(seed)) for _ in range(2)]
    assert first[0] == first[1]


@given(views(), _greedy, st.integers(0, 99))
def test_choosing_leaves_the_view_as_it_was(view: View, rule: Greedy, seed: int) -> None:
    kept = copy.deepcopy(view)
    rule.choose(view, random.Random(seed))
    assert view == kept


@given(st.integers(1, 8), st.integers(0, 6), st.integers(0, 99), st.data())
def test_with_at_most_k_and_one_edges_all_three_rules_choose_everybody(
    edges: int, spare: int, seed: int, data: st.DataObject
) -> None:
    candidates = data.draw(st.permutations([j for j in range(edges) if j != 2]))
    peers = max(1, len(candidates)) + spare
    neighbours = [j for j in candidates if data.draw(st.booleans())]
    shares = {j: data.draw(_share) for j in neighbours}
    view = View(2, neighbours, candidates, shares, {})
    rules = [Greedy(peers=peers), Random(peers=peers), Everybody()]
    expected = sorted(candidates)
    assert [r.choose(view, random.Random(seed)) for r in rules] == [expected] * 3
    assert [r.first(2, candidates, random.Random(seed)) for r in rules] == [expected] * 3


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
    view = _settled(n, rule, seed)
    chosen = rule.choose(view, random.Random(seed))
    gone, stay = set(view.neighbours) - set(chosen), set(view.neighbours) & set(chosen)
    assert len(gone) == min(rule.replace, rule.peers, n - 1 - rule.peers)
    if gone and stay:
        assert max(view.shares[j] for j in gone) <= min(view.shares[j] for j in stay)


@given(st.integers(8, 20), _unconditional, st.integers(0, 999))
def test_the_best_scored_come_first_and_the_unknown_fill_up(n: int, rule: Greedy, seed: int) -> None:
    view = _settled(n, rule, seed)
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
    view = _settled(n, rule, seed)
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
    view = _settled(n, rule, seed)
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


def test_random_peers_are_drawn_anew_and_evenly() -> None:
    view = View(0, [1, 2], list(range(1, 11)), {}, {})
    counts = dict.fromkeys(range(1, 11), 0)
    for seed in range(1000):
        for j in Random(peers=3).choose(view, random.Random(seed)):
            counts[j] += 1
    assert min(counts.values()) > 230
    assert max(counts.values()) < 370


@given(views(), st.integers(1, 6), st.integers(0, 99))
def test_fixed_peers_stay_as_long_as_they_are_there(view: View, peers: int, seed: int) -> None:
    chosen = Fixed(peers=peers).choose(view, random.Random(seed))
    staying = [j for j in view.neighbours if j in set(view.candidates)]
    assert chosen[: len(staying)] == staying
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(view.candidates)


def test_everybody_and_nobody_are_what_they_say() -> None:
    view = View(3, [1], [5, 1, 4], {}, {})
    assert Everybody().choose(view, random.Random(0)) == [1, 4, 5]
    assert Everybody().first(3, [5, 1, 4], random.Random(0)) == [1, 4, 5]
    assert Nobody().choose(view, random.Random(0)) == []
    assert Nobody().first(3, [5, 1, 4], random.Random(0)) == []


@pytest.mark.parametrize("rule", [Greedy(), Random(), Fixed(), Everybody(), Nobody()])
def test_alone_in_the_world_there_is_nobody_to_choose(rule: Greedy | Random | Fixed | Everybody | Nobody) -> None:
    assert rule.first(0, [], random.Random(0)) == []
    assert rule.choose(View(0, [1, 2], [], {1: 0.5, 2: 0.1}, {}), random.Random(0)) == []


def test_k_and_k_prime_are_the_papers_by_default() -> None:
    assert (Greedy().peers, Greedy().replace, Greedy().every) == (5, 1, 1)
    assert Random().peers == Fixed().peers == 5


@pytest.mark.parametrize(
    ("rule", "settings", "field", "least"),
    [
        (Greedy, {"peers": 0}, "peers", 1),
        (Greedy, {"peers": -2}, "peers", 1),
        (Greedy, {"peers": 2.5}, "peers", 1),
        (Greedy, {"replace": -1}, "replace", 0),
        (Greedy, {"every": 0}, "select every", 1),
        (Random, {"peers": 0}, "peers", 1),
        (Random, {"every": 0}, "select every", 1),
        (Fixed, {"peers": 0}, "peers", 1),
        (Fixed, {"every": 0}, "select every", 1),
        (Everybody, {"every": 0}, "select every", 1),
        (Nobody, {"every": 0}, "select every", 1),
    ],
)
def test_impossible_settings_are_refused(rule: type, settings: dict[str, object], field: str, least: int) -> None:
    with pytest.raises(InvalidValue) as caught:
        rule(**settings)
    (found,) = settings.values()
    assert caught.value.field == field
    assert caught.value.found == found
    assert caught.value.allowed == f"a whole number of at least {least}"


def test_a_whole_number_written_as_a_float_is_refused_or_works() -> None:
    view = View(0, [1, 2], list(range(1, 9)), {1: 0.5, 2: 0.1}, {})
    try:
        rule = Greedy(peers=2.0)
    except InvalidValue:
        return
    assert len(rule.choose(view, random.Random(0))) == 2
