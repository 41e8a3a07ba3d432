"""What selection rules have in common: how many peers they choose, from whom, and by which dice."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.nobody import Nobody
from alphaedge.core.rules.selection.random import Random
from alphaedge.core.selection import Selection, View, draw_peers
from alphaedge.errors import InvalidValue

from .rules.selection.views import any_rule, share, views


def _others(view: View) -> list[int]:
    return sorted(set(view.candidates) - {view.edge})


@given(views(), any_rule, st.integers(0, 99))
def test_as_many_peers_as_wanted_or_as_there_are(view: View, rule: Greedy | Random | Fixed, seed: int) -> None:
    if isinstance(rule, Fixed):
        view = replace(view, neighbours=view.neighbours[: rule.peers])
    expected = min(rule.peers, len(_others(view)))
    assert len(rule.choose(view, random.Random(seed))) == expected
    first = rule.first(view.edge, view.candidates, random.Random(seed))
    assert len(first) == len(set(first)) == expected
    assert view.edge not in first


@given(views(), any_rule, st.integers(0, 99))
def test_the_same_dice_choose_the_same_peers(view: View, rule: Greedy | Random | Fixed, seed: int) -> None:
    assert rule.choose(view, random.Random(seed)) == rule.choose(view, random.Random(seed))
    first = [rule.first(view.edge, view.candidates, random.Random(seed)) for _ in range(2)]
    assert first[0] == first[1]


@given(st.integers(1, 8), st.integers(0, 6), st.integers(0, 99), st.data())
def test_with_at_most_k_and_one_edges_all_three_rules_choose_everybody(
    edges: int, spare: int, seed: int, data: st.DataObject
) -> None:
    candidates = data.draw(st.permutations([j for j in range(edges) if j != 2]))
    peers = max(1, len(candidates)) + spare
    neighbours = [j for j in candidates if data.draw(st.booleans())]
    shares = {j: data.draw(share) for j in neighbours}
    view = View(2, neighbours, candidates, shares, {})
    rules = [Greedy(peers=peers), Random(peers=peers), Everybody()]
    expected = sorted(candidates)
    assert [r.choose(view, random.Random(seed)) for r in rules] == [expected] * 3
    assert [r.first(2, candidates, random.Random(seed)) for r in rules] == [expected] * 3


@pytest.mark.parametrize("rule", [Greedy(), Random(), Fixed(), Everybody(), Nobody()])
def test_alone_in_the_world_there_is_nobody_to_choose(rule: Selection) -> None:
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


@given(st.integers(1, 200), st.integers(0, 8), st.sets(st.integers(0, 9), max_size=4), st.integers(0, 99))
def test_random_peers_are_candidates_each_once_and_none_of_the_excluded(
    n: int, count: int, excluded: set[int], seed: int
) -> None:
    """From few candidates, which are listed, and from many, which are not."""
    drawn = draw_peers(range(n), count, excluded, random.Random(seed))
    assert drawn == sorted(set(drawn))
    assert set(drawn) <= set(range(n)) - excluded
    assert len(drawn) == min(count, len(set(range(n)) - excluded))
