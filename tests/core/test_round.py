"""One round for many edges is the round of each; rules that return nonsense are refused by name."""

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alphaedge.core.aggregation import Aggregation, HeldModels, Mixing, Weights
from alphaedge.core.gradients import Gradients, OneAtATime, Stacked
from alphaedge.core.links import Link, Links
from alphaedge.core.methods import Method
from alphaedge.core.round import Round, join, mix, select
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.selection import P, Selection, View
from alphaedge.core.state import ModelState
from alphaedge.errors import RuleError

from ..own_rules import Familiar, Median
from .mixes import KINDS, AsWeighed, MixCase, mix_case

RULES: dict[str, Aggregation] = {
    "learned": Learned(),
    "by records": ByRecords(),
    "uniform": Uniform(),
    "median": Median(),
    "with numbers": Familiar(),
}


def method_of(rule: Aggregation) -> Method:
    return Method(aggregation=rule, selection=Everybody())


def round_of(case: MixCase, rule: Aggregation) -> Round:
    """A round in which edge e has the neighbours 0 to 3 - e, each with some history."""
    memory, width = rule.memory, case.held.index.shape[1]
    links: list[Links[int]] = []
    for edge in range(len(case.models)):
        one = Links.start(list(range(width - edge)), memory)
        for link in (one.own, *one.known.values()):
            link.weight = float(torch.rand(())) + 0.2
            link.numbers = {name: start + float(torch.rand(())) for name, start in memory.numbers.items()}
            link.publication, link.pulled_at = 3, 1
        links.append(one)
        case.held.present[edge, width - edge :] = False
    return Round(
        models=copy.deepcopy(case.models),
        links=links,
        held=case.held,
        publications=torch.randint(4, 9, case.held.index.shape).tolist(),
        aggregations=torch.randint(2, 9, (len(links),)).tolist(),
        records=torch.randint(1, 900, (len(links), 1 + width)).double(),
        batches=[case.batch],
        known=case.known,
        wanted=[~known & (torch.rand(known.shape) < 0.5) for known in case.known],
    )


def only(whole: Round, edge: int) -> Round:
    """The round of one edge: a stack of one, no wider than its neighbours."""
    one, width = torch.tensor([edge]), len(whole.links[edge].neighbours)
    models = whole.models.select_models(one)
    for table in models.tables:
        table.storage, table.edges = table.storage[:, one], torch.tensor([0])
    held = whole.held
    part = HeldModels(
        held.dense, held.tables, held.has, held.statistics, held.index[one, :width], held.present[one, :width]
    )
    return Round(
        models=models,
        links=[copy.deepcopy(whole.links[edge])],
        held=part,
        publications=[whole.publications[edge][:width]],
        aggregations=[whole.aggregations[edge]],
        records=whole.records[one, : 1 + width],
        batches=[batch[one] for batch in whole.batches],
        known=[known[one] for known in whole.known],
        wanted=[wanted[one] for wanted in whole.wanted],
    )


def assert_close(one: Links[int], other: Links[int]) -> None:
    assert one.neighbours == other.neighbours
    assert one.known.keys() == other.known.keys()
    for mine, theirs in ((one.own, other.own), *((one.known[j], other.known[j]) for j in one.known)):
        assert mine.weight == pytest.approx(theirs.weight, rel=1e-12, abs=1e-12)
        assert mine.numbers == pytest.approx(theirs.numbers, rel=1e-12, abs=1e-12)
        assert (mine.publication, mine.pulled_at) == (theirs.publication, theirs.pulled_at)


# -- many edges --


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", list(RULES))
def test_many_edges_mix_as_each_does_alone(rule: str, kind: str) -> None:
    """To the last bits, which are those of matrix products of other shapes."""
    case, method = mix_case(kind, seed=1), method_of(RULES[rule])
    whole = round_of(case, method.aggregation)
    alone = [only(whole, edge) for edge in range(3)]
    gradients: Gradients = OneAtATime(case.model)
    shares = mix(method, gradients, whole)
    for edge, one in enumerate(alone):
        width = len(one.links[0].neighbours)
        (row,) = mix(method, gradients, one)
        assert row == pytest.approx(shares[edge][: 1 + width], rel=1e-12, abs=1e-12)
        assert not any(shares[edge][1 + width :])
        assert_close(one.links[0], whole.links[edge])
        torch.testing.assert_close(one.models.dense[0], whole.models.dense[edge], rtol=1e-12, atol=1e-12)
        for mine, table in zip(one.models.tables, whole.models.tables, strict=True):
            torch.testing.assert_close(mine.value[0], table.value[edge], rtol=1e-12, atol=1e-12)


def test_stacked_gradients_give_the_same_round() -> None:
    case, method = mix_case("two tables"), method_of(Learned())
    one = round_of(case, method.aggregation)
    other = copy.deepcopy(one)
    torch.testing.assert_close(
        mix(method, OneAtATime(case.model), one), mix(method, Stacked(case.model), other), rtol=1e-9, atol=1e-9
    )
    torch.testing.assert_close(one.models.dense, other.models.dense, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 999), st.permutations(range(6)))
def test_edges_select_the_same_neighbours_in_whatever_order_they_do(seed: int, order: list[int]) -> None:
    method = Method(aggregation=Learned(), selection=Greedy(peers=2))
    fleets = []
    for turns in (range(6), order):
        links = {e: join(method, e, range(6), random.Random(f"{seed}/{e}")) for e in range(6)}
        announced = {e: one.shares() for e, one in links.items()}
        for edge in turns:
            select(
                method,
                edge,
                links[edge],
                aggregations=0,
                candidates=range(6),
                topology=announced,
                rng=random.Random(f"{seed}/{edge}/peers"),
            )
        fleets.append(links)
    assert fleets[0] == fleets[1]


# -- silent peers --


@pytest.mark.parametrize("rule", list(RULES))
def test_a_silent_peer_has_no_effect_on_the_mix(rule: str) -> None:
    case, method = mix_case("two tables"), method_of(RULES[rule])
    case.held.index[:] = torch.tensor([0, 1, 2, 3])
    clean = round_of(case, method.aggregation)
    case.held.present[:, 1] = False
    dirty = copy.deepcopy(clean)
    dirty.held.dense[1] = torch.nan
    for table, has in zip(dirty.held.tables, dirty.held.has, strict=True):
        table[1], has[1] = 1e30, True
    dirty.records[:, 2] = 1e9
    for links in dirty.links:
        links.known[1].weight = 77.0
    gradients = OneAtATime(case.model)
    assert mix(method, gradients, clean) == mix(method, gradients, dirty)
    assert torch.equal(clean.models.dense, dirty.models.dense)
    for one, other in zip(clean.links, dirty.links, strict=True):
        assert one.own == other.own
        assert all(one.known[j] == other.known[j] for j in one.known if j != 1)
    for a, b in zip(clean.models.tables, dirty.models.tables, strict=True):
        torch.testing.assert_close(a.value, b.value, rtol=0, atol=0)


@pytest.mark.parametrize("rule", ["learned", "with numbers"])
def test_a_silent_peer_keeps_its_weight_its_numbers_and_what_was_pulled_of_it(rule: str) -> None:
    case, method = mix_case("mlp"), method_of(RULES[rule])
    now = round_of(case, method.aggregation)
    case.held.present[:, 0], case.held.present[:, 1] = True, False
    if rule == "with numbers":  # its weight is 1 + seen
        for links in now.links:
            links.known[1].weight = 1 + links.known[1].numbers["seen"]
    before = copy.deepcopy(now.links)
    mix(method, OneAtATime(case.model), now)
    for edge, (links, then) in enumerate(zip(now.links, before, strict=True)):
        silent, answered = links.known[1], links.known[0]
        assert silent.numbers == then.known[1].numbers
        assert silent.weight == pytest.approx(then.known[1].weight, rel=1e-12)
        assert (silent.publication, silent.pulled_at) == (3, 1)
        assert answered.numbers != then.known[0].numbers
        assert (answered.publication, answered.pulled_at) == (now.publications[edge][0], now.aggregations[edge])


@pytest.mark.parametrize("peers", [0, 4])
@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("kind", ["mlp", "deepfm"])
def test_if_nobody_answers_models_and_links_stay_as_they_are(kind: str, rule: str, peers: int) -> None:
    case, method = mix_case(kind), method_of(RULES[rule])
    now = round_of(case, method.aggregation)
    held = replace(case.held, index=case.held.index[:, :peers], present=torch.zeros(3, peers, dtype=torch.bool))
    now = replace(now, held=held, records=now.records[:, : 1 + peers])
    if not peers:
        for links in now.links:
            links.neighbours = []
    before = copy.deepcopy(now.links)
    assert mix(method, OneAtATime(case.model), now) == [[1.0] + [0.0] * peers] * 3
    assert now.links == before
    assert torch.equal(now.models.dense, case.models.dense)
    for a, b in zip(now.models.tables, case.models.tables, strict=True):
        assert torch.equal(a.value, b.value)


# -- what a rule keeps --


def test_numbers_are_handed_to_the_next_round() -> None:
    case, method = mix_case("mlp"), method_of(Familiar())
    now = replace(round_of(case, Familiar()), links=[Links.start([0, 1, 2, 3], Familiar.memory) for _ in range(3)])
    answered = torch.zeros(3, 4)
    for _ in range(5):
        case.held.present[:] = torch.rand(3, 4) < 0.6
        case.held.present[0, 0] = True
        answered += case.held.present
        mix(method, OneAtATime(case.model), now)
    assert [[one.known[j].numbers["seen"] for j in range(4)] for one in now.links] == answered.tolist()
    assert [one.own.numbers for one in now.links] == [{"seen": 5.0}] * 3


# -- rules that return nonsense --


@dataclass(frozen=True)
class Nonsense(AsWeighed):
    """Returns what a function makes of the weights."""

    change: Callable[[Weights], Weights] = lambda weights: weights

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        return self.change(weights)


def _with_a_negative_weight(weights: Weights) -> Weights:
    raw = weights.raw.clone()
    raw[1, 2] = -1e-9
    return Weights(raw)


WRONG: dict[str, Callable[[Weights], Weights]] = {
    "negative": _with_a_negative_weight,
    "too few": lambda weights: Weights(weights.raw[:, 1:]),
    "one edge's": lambda weights: Weights(weights.raw[:1]),
    "flat": lambda weights: Weights(weights.raw.flatten()),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_weights_that_are_negative_or_of_another_shape_are_refused_by_the_rules_name(wrong: str) -> None:
    case, method = mix_case("mlp"), method_of(Nonsense(WRONG[wrong]))
    now = round_of(case, method.aggregation)
    before = copy.deepcopy(now.links)
    with pytest.raises(RuleError, match=r"^aggregation: Nonsense\.weigh .* weights of 0 or more, of shape \(3, 5\)$"):
        mix(method, OneAtATime(case.model), now)
    assert now.links == before
    assert torch.equal(now.models.dense, case.models.dense), "nothing was mixed"


@dataclass(frozen=True)
class Forgetful(Familiar):
    """Keeps numbers, and returns others."""

    numbers: Callable[[Tensor], dict[str, Tensor]] = lambda seen: {}

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        return Weights(weights.raw, self.numbers(weights.numbers["seen"]))


@pytest.mark.parametrize(
    "numbers",
    [lambda seen: {}, lambda seen: {"scene": seen}, lambda seen: {"seen": seen[:, 1:]}],
    ids=["none", "others", "too few"],
)
def test_numbers_that_are_not_those_of_the_memory_are_refused(numbers: Callable[[Tensor], dict[str, Tensor]]) -> None:
    case, method = mix_case("mlp"), method_of(Forgetful(numbers=numbers))
    now = round_of(case, method.aggregation)
    with pytest.raises(RuleError, match=r"^aggregation: Forgetful\.weigh must return seen numbers, of shape \(3, 5\)"):
        mix(method, OneAtATime(case.model), now)
    assert torch.equal(now.models.dense, case.models.dense)


@dataclass(frozen=True)
class Chooses:
    """Chooses the same peers whatever happens, and keeps the views that it was given."""

    chosen: tuple[Any, ...]
    peers: int | None = None
    every: int = 1
    views: list[Any] = field(default_factory=list)

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        return list(self.chosen)

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        self.views.append(view)
        return list(self.chosen)


def _select(rule: Selection, links: Links[str], aggregations: int = 0) -> None:
    select(
        Method(aggregation=Learned(), selection=rule),
        "mine",
        links,
        aggregations=aggregations,
        candidates=["a", "b", "c", "mine"],
        topology={},
        rng=random.Random(0),
    )


@pytest.mark.parametrize(
    "chosen", [("a", "mine"), ("a", "stranger"), ("a", "b", "a")], ids=["itself", "a stranger", "somebody twice"]
)
def test_a_selection_rule_that_chooses_what_it_may_not_is_refused_by_name(chosen: tuple[str, ...]) -> None:
    links = Links.start(["a"], Learned().memory)
    with pytest.raises(RuleError) as caught:
        _select(Chooses(chosen), links)
    assert (
        str(caught.value)
        == f"selection: Chooses chose {list(chosen)!r} for 'mine'; allowed: other candidates, each once"
    )
    assert links == Links.start(["a"], Learned().memory), "the neighbours stay"
    method = Method(aggregation=Learned(), selection=Chooses(chosen))
    with pytest.raises(RuleError, match=r"^selection: Chooses chose"):
        join(method, "mine", ["a", "b", "c", "mine"], random.Random(0))


# -- selection --


def test_the_first_neighbours_weigh_what_the_rules_memory_says() -> None:
    method = Method(aggregation=Learned(start=0.25), selection=Chooses(("b", "a")))
    links = join(method, "mine", ["a", "b", "mine"], random.Random(0))
    assert links.neighbours == ["b", "a"]
    assert links.own == links.known["a"] == links.known["b"] == Link(0.25)


def test_neighbours_are_chosen_at_every_mth_aggregation_only() -> None:
    switched = []
    for aggregations in range(7):
        links = Links.start(["a"], Learned().memory)
        _select(Chooses(("b", "c"), every=3), links, aggregations)
        if links.neighbours == ["b", "c"]:
            switched.append(aggregations)
    assert switched == [2, 5]


def test_a_rule_sees_only_what_its_neighbours_announce() -> None:
    links = Links(Link(2.0), [1, 3], {1: Link(1.0), 3: Link(1.0), 5: Link(8.0)})
    rule = Chooses((1, 3))
    select(
        Method(aggregation=Learned(), selection=rule),
        0,
        links,
        aggregations=0,
        candidates=[1, 2, 3, 5],
        topology={1: {2: 0.5}, 2: {5: 1.0}},
        rng=random.Random(0),
    )
    (view,) = rule.views
    assert (view.edge, view.neighbours, view.candidates) == (0, [1, 3], [1, 2, 3, 5])
    assert view.shares == {1: 0.25, 3: 0.25}
    assert view.topology == {1: {2: 0.5}, 3: {}}
    assert view.remembered == {5: 2.0}


def test_a_round_moves_the_selected_models_alone() -> None:
    """Tables are shared with the stack that the models were selected from; its other edges stay."""
    case, method = mix_case("two tables"), method_of(Uniform())
    now = round_of(case, method.aggregation)
    whole = ModelState.start([case.model], [0] * 6)
    some = torch.tensor([4, 1, 2])
    for mine, table in zip(whole.tables, case.models.tables, strict=True):
        mine.value[some] = table.value
    whole.dense[some] = case.models.dense
    before = copy.deepcopy(whole)
    models = whole.select_models(some)
    mix(method, OneAtATime(case.model), replace(now, models=models))
    whole.write_models(some, models)
    expected = replace(now, models=copy.deepcopy(case.models))
    mix(method, OneAtATime(case.model), expected)
    assert torch.equal(whole.dense[some], expected.models.dense)
    assert torch.equal(whole.dense[[0, 3, 5]], before.dense[[0, 3, 5]])
    for mine, table, then in zip(whole.tables, expected.models.tables, before.tables, strict=True):
        assert torch.equal(mine.value[some], table.value)
        assert torch.equal(mine.value[[0, 3, 5]], then.value[[0, 3, 5]])
