"""Rules that the package does not know: in simulations by objects and by import paths, in one process and in two."""

from typing import Any

import pytest
import torch

from alphaedge import Conditions, InvalidValue, MethodSettings, Random, Settings, simulate
from alphaedge.core.methods import alphaedge
from alphaedge.errors import RuleError

from ..own_rules import Familiar, Median, NextInLine, SignDescent, familiar, median
from .fleets import linear, measured, predictions, seen, shop, shop_model

SIZE = 5
SHARED: dict[str, Any] = {"data": measured(4, [30, 25, 41, 33]), "model": linear, "rate": 0.05, "batch_size": SIZE}
DOWN = Conditions(drop=0.4)


@pytest.mark.parametrize("selection", ["everybody", "random"])
@pytest.mark.parametrize("conditions", [Conditions(), DOWN], ids=["up", "down"])
def test_a_rules_numbers_are_carried_from_round_to_round(conditions: Conditions, selection: str) -> None:
    """``Familiar`` counts the rounds in which a model took part: as many as there were pulls."""
    changes = {} if selection == "everybody" else {"selection": Random(peers=2)}
    found = seen(methods={"m": familiar(aggregate_every=5, **changes)}, conditions=conditions, **SHARED)
    log = found.world.log
    for edge, links in enumerate(found.world.links):
        assert links.own.numbers["seen"] == len(log.mixes[edge]) >= 3
        pulls = {peer: pulls.count for peer, pulls in log.pulls[edge].items()}
        counted = {peer: link.numbers.get("seen", 0.0) for peer, link in links.known.items()}
        assert {peer: count for peer, count in counted.items() if count} == pulls
        assert links.own.weight == 1 + links.own.numbers["seen"]
        assert not pulls or min(pulls.values()) < max(pulls.values()) or conditions != DOWN, "an outage shows"


def test_the_shares_of_a_mix_are_those_of_the_rules_weights() -> None:
    """In lock-step nobody is down, so all models are equally familiar."""
    found = simulate(
        methods={"m": familiar(aggregate_every=5)}, clock="batch-index", **(SHARED | {"data": measured(3, 20)})
    )
    assert found.weights["share"].to_list() == pytest.approx([1 / 3] * len(found.weights), abs=1e-6)


METHODS = {
    "familiar": familiar(aggregate_every=5),
    "next in line": familiar(aggregate_every=5, selection=NextInLine(), publish="mixed"),
    "median": median(aggregate_every=5),
    "learned, next in line": alphaedge(aggregate_every=5, selection=NextInLine()),
}


def test_both_executors_give_equal_results() -> None:
    store = shop(edges=4, events=150)
    shared: dict[str, Any] = {"store": store, "model": shop_model(store), "batch_size": SIZE, "conditions": DOWN}
    stacked, loop = (seen(methods=METHODS, executor=e, **shared) for e in ("stacked", "one-at-a-time"))
    for one, two in zip(stacked.worlds, loop.worlds, strict=True):
        assert torch.allclose(one.log.predictions, two.log.predictions, atol=1e-5, equal_nan=True)
        assert torch.equal(one.log.bytes, two.log.bytes)
        for mine, theirs in zip(one.links, two.links, strict=True):
            assert mine.neighbours == theirs.neighbours
            for peer, link in mine.known.items():
                assert link.numbers == pytest.approx(theirs.known[peer].numbers, rel=1e-4, abs=1e-4)
    assert stacked.results.pulls.equals(loop.results.pulls)


@pytest.mark.long
def test_two_processes_give_what_one_does() -> None:
    one, two = (simulate(methods=METHODS, seeds=2, jobs=jobs, conditions=DOWN, **SHARED) for jobs in (1, 2))
    assert one.scores.drop("score").equals(two.scores.drop("score"))
    assert (one.scores["score"] - two.scores["score"]).abs().max() < 1e-4
    assert one.weights.drop("share").equals(two.weights.drop("share"))
    assert (one.weights["share"] - two.weights["share"]).abs().max() < 1e-5
    assert one.pulls.equals(two.pulls)


# -- import paths --


def test_methods_by_import_path_are_those_of_the_functions() -> None:
    specs = ("alphaedge", "tests.own_rules:familiar", "robust=tests.own_rules:median")
    by_path = simulate(methods=specs, method=MethodSettings(aggregate_every=5), **SHARED)
    objects = {"alphaedge": alphaedge(aggregate_every=5), "familiar": METHODS["familiar"], "robust": METHODS["median"]}
    assert list(by_path.summary()["methods"]) == ["alphaedge", "familiar", "robust"]
    assert by_path.scores.equals(simulate(methods=objects, **SHARED).scores)


def test_settings_with_import_paths_say_them_again() -> None:
    settings = Settings(
        methods=("median=tests.own_rules:median", "alphaedge"),
        optimizer="tests.own_rules:SignDescent",
        method=MethodSettings(aggregation="tests.own_rules:Familiar", selection="tests.own_rules:NextInLine"),
    )
    text = settings.toml()
    for path in ("median=tests.own_rules:median", "tests.own_rules:SignDescent", "tests.own_rules:NextInLine"):
        assert path in text
    assert settings.online.optimizer == SignDescent()


def test_an_optimizer_of_ones_own_moves_the_model() -> None:
    """Its first step is ``rate`` in each number, whatever the gradient."""
    found = seen(methods=["noagg"], optimizer="tests.own_rules:SignDescent", **(SHARED | {"data": measured(2, 2)}))
    model = found.world.gradients.model
    moved = (found.world.models.dense - model.initial_dense()).abs()
    assert torch.allclose(moved.max(1).values, torch.full((2,), 0.02), atol=1e-6), "two steps of 0.01"
    assert torch.isfinite(predictions(found.world, 0)).all()


def test_a_rule_that_lacks_a_part_is_refused_before_any_work() -> None:
    with pytest.raises(RuleError, match=r"^aggregation: NextInLine is not a rule of this kind: uses_peers is missing"):
        simulate(method=MethodSettings(aggregation="tests.own_rules:NextInLine"), methods=["alphaedge"], **SHARED)


def test_two_methods_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match="each method once"):
        Settings(methods=("tests.own_rules:median", "median=tests.own_rules:familiar"))


def test_rules_by_import_path_take_the_place_of_those_of_every_method_with_peers() -> None:
    over = MethodSettings(aggregation="tests.own_rules:Median", selection="tests.own_rules:NextInLine")
    for name in ("alphaedge", "randps", "nops", "fedweight", "uniweight"):
        method = over.apply(name)
        assert (method.aggregation, method.selection) == (Median(), NextInLine())
    for name in ("noagg", "alphaedge-paper"):
        assert over.apply(name) == MethodSettings().apply(name)
    assert MethodSettings(aggregation="tests.own_rules:Familiar").apply("alphaedge").aggregation == Familiar()
