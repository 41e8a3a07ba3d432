"""What an edge remembers of its peers survives switching, stacking and unstacking."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.aggregation import PeerMemory, Weights, shares_of
from alphaedge.core.links import Link, Links, stack, unstack

MEMORY = PeerMemory(numbers={"m": 0.0, "steps": 5.0})


def _links(own: float = 2.0, **weights: float) -> Links:
    known = {int(name[1:]): Link(w, {"m": w / 10, "steps": 3}) for name, w in weights.items()}
    return Links(Link(own), list(known), known)


def test_first_neighbours_weigh_as_much_as_the_own_model() -> None:
    links = Links.start([4, 2], PeerMemory(start=0.5))
    assert links.own == Link(0.5)
    assert links.neighbours == [4, 2]
    assert links.known == {4: Link(0.5), 2: Link(0.5)}
    assert links.shares() == pytest.approx({4: 1 / 3, 2: 1 / 3})


def test_first_neighbours_do_not_share_a_link() -> None:
    links = Links.start([4, 2], PeerMemory(start=0.5))
    links.known[4].weight = 9
    assert links.known[2].weight == links.own.weight == 0.5


def test_shares_are_normalised_together_with_the_own_weight() -> None:
    assert _links(2.0, n1=1.0, n7=5.0).shares() == pytest.approx({1: 1 / 8, 7: 5 / 8})


def test_shares_do_not_count_peers_that_are_only_remembered() -> None:
    links = _links(2.0, n1=2.0, n7=100.0)
    links.switch([1], PeerMemory())
    assert links.shares() == pytest.approx({1: 0.5})


def test_shares_of_vanished_weights_are_zero() -> None:
    assert _links(0.0, n1=0.0, n2=0.0).shares() == {1: 0.0, 2: 0.0}


def test_former_neighbours_are_remembered_on_the_scale_of_the_shares() -> None:
    links = _links(2.0, n1=2.0, n7=100.0)
    assert links.remembered() == {}
    links.switch([1], PeerMemory(remember=True))
    assert links.remembered() == pytest.approx({7: 25.0})
    links.switch([1, 7], PeerMemory(remember=True))
    assert links.remembered() == {}


@pytest.mark.parametrize("newcomer", [0.0, 0.5, 1.0])
def test_a_newcomer_starts_at_a_share_of_the_mean_of_those_that_stay(newcomer: float) -> None:
    links = _links(2.0, n1=1.0, n2=6.0, n3=100.0)
    links.switch([1, 2, 9], PeerMemory(newcomer=newcomer))
    assert links.neighbours == [1, 2, 9]
    assert links.known[9] == Link(pytest.approx(newcomer * 3.0))


def test_newcomers_do_not_change_the_incumbents() -> None:
    links = _links(2.0, n1=1.0, n2=6.0)
    links.known[1].publication, links.known[1].pulled_at = 7, 3
    links.switch([1, 8, 9], PeerMemory())
    assert links.known[1] == Link(1.0, {"m": 0.1, "steps": 3}, publication=7, pulled_at=3)
    assert links.own == Link(2.0)
    assert links.known[8] is not links.known[9]


def test_a_newcomer_may_start_at_zero() -> None:
    links = _links(2.0, n1=1.0)
    links.switch([5], PeerMemory(newcomer=0.0))
    assert links.known[5].weight == 0


def test_a_remembered_peer_comes_back_with_its_weight_and_state_but_without_its_rows() -> None:
    links = _links(2.0, n1=1.0, n2=6.0)
    links.known[2].publication, links.known[2].pulled_at = 4, 2
    links.switch([1, 9], PeerMemory(remember=True, fade=0.0))
    assert links.neighbours == [1, 9]
    links.switch([1, 2], PeerMemory(remember=True, fade=0.0))
    assert links.known[2] == Link(6.0, {"m": 0.6, "steps": 3}, publication=-1, pulled_at=-1)


def test_a_forgotten_peer_comes_back_as_a_newcomer() -> None:
    memory = PeerMemory(remember=False, newcomer=0.5)
    links = _links(2.0, n1=1.0, n2=6.0)
    links.switch([1, 9], memory)
    assert set(links.known) == {1, 9}
    links.known[9].weight = 3.0
    links.switch([9, 2], memory)
    assert links.known[2] == Link(pytest.approx(0.5 * (2.0 + 3.0) / 2))


@pytest.mark.parametrize("remember", [True, False])
def test_switching_to_the_same_neighbours_changes_nothing(remember: bool) -> None:
    links, same = _links(2.0, n1=1.0, n2=6.0), _links(2.0, n1=1.0, n2=6.0)
    links.switch([1, 2], PeerMemory(remember=remember))
    assert links == same


def test_a_list_of_neighbours_is_copied() -> None:
    mine = [1, 2]
    links = Links.start(mine, PeerMemory())
    links.switch(mine, PeerMemory())
    mine.append(3)
    assert links.neighbours == [1, 2]


def test_stacking_puts_the_own_weight_first_then_the_neighbours_in_order_then_zeros() -> None:
    a, b = _links(2.0, n5=1.0, n3=6.0), _links(7.0, n4=0.5)
    weights = stack([a, b], 3, MEMORY, torch.float64)
    assert weights.raw.tolist() == [[2.0, 1.0, 6.0, 0.0], [7.0, 0.5, 0.0, 0.0]]
    assert list(weights.numbers) == ["m", "steps"]
    assert weights.numbers["m"].tolist() == [[0.0, 0.1, 0.6, 0.0], [0.0, 0.05, 0.0, 0.0]]
    assert weights.numbers["steps"].tolist() == [[5.0, 3.0, 3.0, 0.0], [5.0, 3.0, 0.0, 0.0]], "5 is the start"
    assert all(t.is_contiguous() for t in (weights.raw, *weights.numbers.values()))


def test_a_number_that_a_link_does_not_have_yet_starts_where_the_rule_says() -> None:
    """Newcomers, and links from before the rule kept that number."""
    links = Links(Link(1.0), [4], {4: Link(0.5, {"m": 0.25, "forgotten": 9.0})})
    weights = stack([links], 1, MEMORY, torch.float64)
    assert {name: column.tolist() for name, column in weights.numbers.items()} == {"m": [[0, 0.25]], "steps": [[5, 5]]}


def test_a_rule_that_keeps_no_numbers_stacks_weights_alone() -> None:
    weights = stack([_links(2.0, n5=1.0)], 1, PeerMemory(), torch.float32)
    assert weights.raw.tolist() == [[2.0, 1.0]]
    assert weights.numbers == {}


def test_numbers_that_a_rule_returns_replace_those_of_the_link() -> None:
    links = _links(2.0, n5=1.0)
    unstack(Weights(torch.tensor([[3.0, 4.0]]), {"seen": torch.tensor([[1.0, 2.0]])}), [links])
    assert links.own == Link(3.0, {"seen": 1.0})
    assert links.known[5] == Link(4.0, {"seen": 2.0})


_link = st.builds(
    Link,
    weight=st.floats(0, 100, width=32),
    numbers=st.fixed_dictionaries({"m": st.floats(-1, 1, width=32), "steps": st.integers(0, 1000).map(float)}),
    publication=st.integers(-1, 9),
    pulled_at=st.integers(-1, 9),
)


@st.composite
def _some_links(draw: st.DrawFn) -> Links:
    known = draw(st.dictionaries(st.integers(0, 20), _link, max_size=6))
    neighbours = draw(st.permutations(list(known)))[: draw(st.integers(0, len(known)))]
    return Links(draw(_link), list(neighbours), known)


@given(
    st.lists(_some_links(), min_size=1, max_size=4), st.integers(0, 3), st.sampled_from([torch.float32, torch.float64])
)
def test_stacking_and_unstacking_is_a_round_trip(links: list[Links], spare: int, dtype: torch.dtype) -> None:
    width = max(len(each.neighbours) for each in links) + spare
    before = copy.deepcopy(links)
    unstack(stack(links, width, MEMORY, dtype), links)
    assert links == before


@given(st.lists(_some_links(), min_size=1, max_size=4))
def test_new_weights_go_to_the_neighbours_they_belong_to(links: list[Links]) -> None:
    width = max(len(each.neighbours) for each in links)
    others = [{j: repr(link) for j, link in each.known.items() if j not in each.neighbours} for each in links]
    weights = stack(links, width, MEMORY, torch.float64)
    weights.raw.add_(1)
    weights.numbers["steps"].add_(10)
    expected = [(each.own.weight + 1, [each.known[j].weight + 1 for j in each.neighbours]) for each in links]
    counts = [[each.known[j].numbers["steps"] + 10 for j in each.neighbours] for each in links]
    unstack(weights, links)
    for each, (own, peers), steps, rest in zip(links, expected, counts, others, strict=True):
        assert each.own.weight == own
        assert [each.known[j].weight for j in each.neighbours] == peers
        assert [each.known[j].numbers["steps"] for j in each.neighbours] == steps
        assert {j: repr(link) for j, link in each.known.items() if j not in each.neighbours} == rest


@given(st.lists(_some_links(), min_size=1, max_size=4))
def test_an_edge_announces_the_shares_that_it_mixes_with_when_all_are_there(links: list[Links]) -> None:
    width = max(1, *(len(each.neighbours) for each in links))
    shares = shares_of(stack(links, width, MEMORY, torch.float64).raw, torch.ones(len(links), width, dtype=torch.bool))
    for each, row in zip(links, shares.tolist(), strict=True):
        if each.own.weight + sum(each.known[j].weight for j in each.neighbours) > 1e-5:
            assert list(each.shares().values()) == pytest.approx(row[1 : 1 + len(each.neighbours)])


def test_the_memory_of_a_former_neighbour_fades_to_a_newcomers_weight() -> None:
    links = _links(2.0, n1=2.0, n2=0.0)
    memory = PeerMemory(remember=True, fade=0.5, newcomer=0.5)
    links.switch([1], memory)  # a newcomer would start at half of the mean weight, 1.0
    links.switch([1], memory)
    assert links.known[2].weight == 0.5
    for _ in range(50):
        links.switch([1], memory)
    assert abs(links.known[2].weight - 1.0) < 1e-6


def test_a_neighbour_that_is_dropped_has_no_weight_even_when_it_comes_back() -> None:
    links = Links.start([4, 2], PeerMemory(start=0.5))
    links.drop(4)
    assert links.neighbours == [2]
    assert links.shares() == {2: 0.5}
    assert links.remembered() == {4: 0.0}
    links.switch([2, 4], PeerMemory())
    assert links.known[4].weight < 0.05
