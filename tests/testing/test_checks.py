"""The public checks: our own rules pass them, and each finds what it is there for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import alphaedge
from alphaedge import Adagrad, Adam, Alone, ByRecords, Everybody, Fixed, Greedy, Learned, Nobody, Random, Uniform
from alphaedge.core.aggregation import Mixing, PeerMemory, Weights
from alphaedge.core.methods import RIVALS, method
from alphaedge.errors import ModelError, RuleError
from alphaedge.testing import (
    AGGREGATION_CHECKS,
    OPTIMIZER_CHECKS,
    SELECTION_CHECKS,
    check_aggregation,
    check_model,
    check_optimizer,
    check_selection,
)


@pytest.mark.parametrize("check", AGGREGATION_CHECKS)
@pytest.mark.parametrize("rule", [Learned(), Learned.paper(), ByRecords(), Uniform(), Alone()], ids=repr)
def test_our_aggregation_rules_pass_every_check(rule: Any, check: Callable[[Any], None]) -> None:
    check(rule)


@pytest.mark.parametrize("check", SELECTION_CHECKS)
@pytest.mark.parametrize("rule", [Greedy(), Random(), Fixed(), Everybody(), Nobody()], ids=repr)
def test_our_selection_rules_pass_every_check(rule: Any, check: Callable[[Any], None]) -> None:
    check(rule)


@pytest.mark.parametrize("check", AGGREGATION_CHECKS)
@pytest.mark.parametrize("name", RIVALS)
def test_the_aggregation_rules_of_the_rivals_pass_every_check(name: str, check: Callable[[Any], None]) -> None:
    check(method(name).aggregation)


@pytest.mark.parametrize("check", SELECTION_CHECKS)
@pytest.mark.parametrize("name", RIVALS)
def test_the_selection_rules_of_the_rivals_pass_every_check(name: str, check: Callable[[Any], None]) -> None:
    check(method(name).selection)


@pytest.mark.parametrize("check", OPTIMIZER_CHECKS)
@pytest.mark.parametrize("rule", [Adam(), Adam(lazy_rows=False), Adagrad(), alphaedge.SGD()], ids=repr)
def test_our_optimizers_pass_every_check(rule: Any, check: Callable[[Any], None]) -> None:
    check(rule)


@dataclass(frozen=True)
class Faulty:
    """The plain mean with one fault."""

    fault: str = ""
    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory(numbers={"seen": 0.0})

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        raw = torch.ones_like(weights.raw)
        if self.fault == "negative":
            raw[:, 1] = -1.0
        if self.fault == "shape":
            raw = raw[:, 1:]
        if self.fault == "random":
            raw = torch.rand_like(raw)
        if self.fault == "moves":
            mixing.models.dense.zero_()
        if self.fault == "across":
            raw = raw * torch.arange(1, 1 + len(raw)).view(-1, 1) * torch.arange(1, 1 + raw.shape[1])
            raw = raw.roll(1, 0) if len(raw) > 1 else raw
            raw[:, 0] = mixing.records[:, 0].sum()
        return Weights(raw, {} if self.fault == "numbers" else dict(weights.numbers))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        if self.fault == "absent":
            mixing.models.dense = mixing.models.dense + mixing.held.dense[mixing.held.index].mean(1)
        elif self.fault == "scales":
            mixing.weighted_mean(shares)
            mixing.models.dense = mixing.models.dense * 1.1
        else:
            mixing.weighted_mean(shares)


def test_a_rule_without_a_fault_passes() -> None:
    check_aggregation(Faulty())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("negative", "0 or more"),
        ("shape", "must return weights"),
        ("random", "the same inputs"),
        ("moves", "weigh must not move models"),
        ("across", "alone"),
        ("numbers", "seen"),
        ("absent", "absent peer"),
        ("scales", "equal models"),
    ],
)
def test_each_fault_of_an_aggregation_rule_is_found_and_named(fault: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        check_aggregation(Faulty(fault))


@dataclass(frozen=True)
class Wayward:
    """Selection with one fault."""

    fault: str
    peers: ClassVar[int | None] = 2
    every: ClassVar[int] = 1

    def first(self, edge: Any, candidates: Any, rng: Any) -> list[Any]:
        return self._choose(edge, candidates, rng)

    def choose(self, view: Any, rng: Any) -> list[Any]:
        if self.fault == "changes" and view.neighbours:
            view.neighbours.clear()
        return self._choose(view.edge, view.candidates, rng)

    def _choose(self, edge: Any, candidates: Any, rng: Any) -> list[Any]:
        others = [j for j in candidates if j != edge]
        if self.fault == "itself":
            return [edge]
        if self.fault == "twice":
            return others[:1] * 2
        if self.fault == "many":
            return others
        if self.fault == "own randomness":
            return [others[int(torch.rand(1) * len(others))]] if others else []
        return others[:2]


def test_a_selection_rule_without_a_fault_passes() -> None:
    check_selection(Wayward(""))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("itself", "other candidates"),
        ("twice", "each once"),
        ("many", "at most 2"),
        ("own randomness", "the same view"),
        ("changes", "must not change the view"),
    ],
)
def test_each_fault_of_a_selection_rule_is_found_and_named(fault: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        check_selection(Wayward(fault))


def test_a_rule_that_was_defined_inside_a_function_is_told_to_move() -> None:
    @dataclass(frozen=True)
    class Local:
        uses_peers: ClassVar[bool] = True
        weight_batches: ClassVar[int] = 1
        memory: ClassVar[PeerMemory] = PeerMemory()

        def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
            return weights

        def mix(self, mixing: Mixing, shares: Tensor) -> None: ...

    with pytest.raises(RuleError, match="define it in a module"):
        check_aggregation(Local())


def test_an_optimizer_that_climbs_is_found() -> None:
    with pytest.raises(RuleError, match="against the gradient"):
        check_optimizer(replace(Climb()))


@dataclass(frozen=True)
class Climb:
    lazy_rows: ClassVar[bool] = True

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        value.add_(gradient)

    def coast(self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Any = None) -> None: ...


class Taste(nn.Module):
    """Looks its ids up, or, with a fault, does more with them."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.item, self.out, self.fault = nn.Embedding(20, 3), nn.Linear(4, 1), fault

    def forward(self, item: Tensor, x: Tensor) -> Tensor:
        found: Tensor = self.out(torch.cat([self.item(item), x], dim=1))
        if self.fault == "uses ids":
            found = found + item.unsqueeze(1)
        if self.fault == "infinite":
            found = found / 0
        if self.fault == "constant":
            found = found.detach() * 0 + 0 * self.out.bias
        if self.fault == "branches" and found.sum() > 1e9:
            found = -found
        return found


INPUTS = {"item": torch.tensor([3, 17, 3, 5]), "x": torch.tensor([[0.1], [0.2], [-1.0], [0.5]])}


def taste(fault: str = "") -> alphaedge.Model:
    tables = [alphaedge.IdTable(("item",), ("item.weight",))]
    return alphaedge.Model(Taste(fault), fields=["item", "x"], tables=tables, loss="bce")


def test_a_good_model_passes() -> None:
    assert check_model(taste(), INPUTS) is None


def test_a_model_that_vmap_does_not_take_passes_with_the_reason() -> None:
    assert "vmap" in str(check_model(taste("branches"), INPUTS))


@pytest.mark.parametrize(
    ("fault", "said"), [("uses ids", "renumbered"), ("infinite", "not finite"), ("constant", "no parameter")]
)
def test_each_fault_of_a_model_is_found_and_named(fault: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        check_model(taste(fault), INPUTS)


def test_a_missing_input_is_named() -> None:
    with pytest.raises(ModelError, match="x missing"):
        check_model(taste(), {"item": INPUTS["item"]})
