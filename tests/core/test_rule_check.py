"""A rule that does not fulfil its protocol is refused at the door, with every missing or wrong part named."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from torch import Tensor

from alphaedge.core.aggregation import Aggregation, Mixing, PeerMemory, Weights
from alphaedge.core.optimizer import Optimizer
from alphaedge.core.rule_check import check_rule
from alphaedge.core.rules.aggregation.alone import Alone
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.rules.optimizer.sgd import SGD
from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.nobody import Nobody
from alphaedge.core.rules.selection.random import Random
from alphaedge.core.selection import Selection
from alphaedge.errors import RuleError

from ..own_rules import Familiar, Median, NextInLine, SignDescent


class Weighing:
    """The smallest aggregation rule; no dataclass, plain attributes."""

    uses_peers = True
    weight_batches = 1
    memory = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        return weights

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        pass


class Choosing:
    """The smallest selection rule."""

    peers = 2
    every = 1

    def first(self, edge: Any, candidates: Sequence[Any], rng: random.Random) -> list[Any]:
        return []

    def choose(self, view: Any, rng: random.Random) -> list[Any]:
        return []


class Moving:
    """The smallest optimizer."""

    lazy_rows = True

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        pass

    def coast(
        self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Tensor | None = None
    ) -> None:
        pass


def changed(kind: type, **members: Any) -> Any:
    """A rule with other members."""
    return type(kind.__name__, (), {k: v for k, v in vars(kind).items() if not k.startswith("__")} | members)()


def without(kind: type, *names: str) -> Any:
    members = {k: v for k, v in vars(kind).items() if not k.startswith("__") and k not in names}
    return type(kind.__name__, (), members)()


def refusal(rule: Any, protocol: type) -> str:
    with pytest.raises(RuleError) as caught:
        check_rule("field", rule, protocol)
    return str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "rules"),
    [
        (Aggregation, [Learned(), Learned.paper(), ByRecords(), Uniform(), Alone(), Weighing(), Familiar(), Median()]),
        (Selection, [Greedy(), Random(), Fixed(), Everybody(), Nobody(), Choosing(), NextInLine()]),
        (Optimizer, [Adam(), Adam(lazy_rows=False), Adagrad(), SGD(), Moving(), SignDescent()]),
    ],
    ids=["aggregation", "selection", "optimizer"],
)
def test_rules_that_fulfil_their_protocol_are_let_in(protocol: type, rules: list[Any]) -> None:
    for rule in rules:
        check_rule("field", rule, protocol)


@pytest.mark.parametrize(
    ("kind", "protocol", "member", "shown"),
    [
        (Weighing, Aggregation, "uses_peers", "uses_peers is missing (bool)"),
        (Weighing, Aggregation, "weight_batches", "weight_batches is missing (int)"),
        (Weighing, Aggregation, "memory", "memory is missing (PeerMemory)"),
        (Weighing, Aggregation, "weigh", "weigh(mixing, weights) is missing"),
        (Weighing, Aggregation, "mix", "mix(mixing, shares) is missing"),
        (Choosing, Selection, "peers", "peers is missing (int or None)"),
        (Choosing, Selection, "every", "every is missing (int)"),
        (Choosing, Selection, "first", "first(edge, candidates, rng) is missing"),
        (Choosing, Selection, "choose", "choose(view, rng) is missing"),
        (Moving, Optimizer, "lazy_rows", "lazy_rows is missing (bool)"),
        (Moving, Optimizer, "update", "update(value, m, v, gradient, steps) is missing"),
        (Moving, Optimizer, "coast", "coast(value, m, v, before, missed, owner) is missing"),
    ],
)
def test_a_missing_part_is_named(kind: type, protocol: type, member: str, shown: str) -> None:
    text = refusal(without(kind, member), protocol)
    assert text == f"field: {kind.__name__} is not a rule of this kind: {shown}"


@pytest.mark.parametrize(
    ("kind", "protocol", "member", "value", "allowed"),
    [
        (Weighing, Aggregation, "uses_peers", 1, "bool"),
        (Weighing, Aggregation, "weight_batches", 2.0, "int"),
        (Weighing, Aggregation, "weight_batches", True, "int"),
        (Weighing, Aggregation, "weight_batches", 0, "1 or more"),
        (Weighing, Aggregation, "memory", {"seen": 0.0}, "PeerMemory"),
        (Weighing, Aggregation, "memory", None, "PeerMemory"),
        (Choosing, Selection, "peers", "all", "int or None"),
        (Choosing, Selection, "peers", True, "int or None"),
        (Choosing, Selection, "every", None, "int"),
        (Choosing, Selection, "every", 0, "1 or more"),
        (Moving, Optimizer, "lazy_rows", "some", "bool"),
        (Moving, Optimizer, "lazy_rows", 0, "bool"),
    ],
)
def test_a_part_of_another_type_is_named_with_what_it_is(
    kind: type, protocol: type, member: str, value: Any, allowed: str
) -> None:
    text = refusal(changed(kind, **{member: value}), protocol)
    assert text == f"field: {kind.__name__} is not a rule of this kind: {member} is {value!r}, not {allowed}"


@pytest.mark.parametrize(
    ("kind", "protocol", "member", "value", "shown"),
    [
        (Weighing, Aggregation, "weigh", lambda self, mixing: None, "weigh(mixing, weights)"),
        (Weighing, Aggregation, "mix", lambda self, mixing, shares, more: None, "mix(mixing, shares)"),
        (Choosing, Selection, "first", lambda self: [], "first(edge, candidates, rng)"),
        (Choosing, Selection, "choose", lambda self, *, view, rng: [], "choose(view, rng)"),
        (Moving, Optimizer, "update", lambda self, value, gradient: None, "update(value, m, v, gradient, steps)"),
        (
            Moving,
            Optimizer,
            "coast",
            lambda self, value, m, v, before, missed: None,
            "coast(value, m, v, before, missed, owner)",
        ),
    ],
)
def test_a_method_that_cannot_be_called_as_the_framework_calls_it_is_named(
    kind: type, protocol: type, member: str, value: Any, shown: str
) -> None:
    text = refusal(changed(kind, **{member: value}), protocol)
    assert text.startswith(f"field: {kind.__name__} is not a rule of this kind: {member} can't be called as {shown} (")


def test_arguments_may_have_other_names_and_more_may_follow_with_defaults() -> None:
    check_rule("field", changed(Weighing, weigh=lambda self, a, b, c=1: b, mix=lambda self, *args: None), Aggregation)


def test_a_method_that_is_no_function_is_missing() -> None:
    assert refusal(changed(Weighing, mix=3), Aggregation).endswith(": mix(mixing, shares) is missing")


def test_all_that_is_wrong_is_named_at_once() -> None:
    text = refusal(changed(Choosing, peers="all", every=0, choose=None), Selection)
    assert "peers is 'all', not int or None; every is 0, not 1 or more; choose(view, rng) is missing" in text


@pytest.mark.parametrize(("kind", "protocol"), [(Weighing, Aggregation), (Choosing, Selection), (Moving, Optimizer)])
def test_a_class_in_the_place_of_an_instance_is_refused_with_what_to_write(kind: type, protocol: type) -> None:
    name = kind.__name__
    assert refusal(kind, protocol) == f"field: {name} is a class; give an instance, such as {name}()"


@pytest.mark.parametrize(("rule", "protocol"), [(Greedy(), Aggregation), (Learned(), Selection), (None, Optimizer)])
def test_a_rule_of_another_kind_is_refused(rule: Any, protocol: type) -> None:
    assert refusal(rule, protocol).startswith(f"field: {type(rule).__name__} is not a rule of this kind: ")
