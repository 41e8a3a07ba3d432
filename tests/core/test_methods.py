"""The six methods are the compositions that their table says."""

import dataclasses
from collections.abc import Callable

import pytest

from alphaedge.core import methods
from alphaedge.core.home import Home
from alphaedge.core.methods import (
    METHODS,
    RIVALS,
    Method,
    alphaedge,
    alphaedge_paper,
    alphaedge_trusting,
    fedweight,
    method,
    noagg,
    nops,
    nops_paper,
    randps,
    randps_paper,
    uniweight,
)
from alphaedge.core.rules.aggregation.alone import Alone
from alphaedge.core.rules.aggregation.by_records import ByRecords
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.core.rules.aggregation.uniform import Uniform
from alphaedge.core.rules.selection.everybody import Everybody
from alphaedge.core.rules.selection.fixed import Fixed
from alphaedge.core.rules.selection.greedy import Greedy
from alphaedge.core.rules.selection.nobody import Nobody
from alphaedge.core.rules.selection.random import Random
from alphaedge.errors import InvalidValue, RuleError

WEIGHTS = {"learned": Learned, "by records learned": ByRecords, "equal": Uniform, "alone": Alone}
PEERS = {
    "greedy, two hops": Greedy,
    "K random ones, drawn each time": Random,
    "everybody": Everybody,
    "K random ones, fixed": Fixed,
    "nobody": Nobody,
}


def _table() -> dict[str, tuple[type, type]]:
    """The table in the module's docstring, read."""
    assert methods.__doc__ is not None
    lines = methods.__doc__.splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("=====")]
    starts = [0, lines[rules[0]].index(" ") + 1, lines[rules[0]].rindex(" ") + 1]
    cells = [
        [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        for line in lines[rules[1] + 1 : rules[2]]
    ]
    return {name: (WEIGHTS[weights], PEERS[peers]) for name, weights, peers in cells}


def test_the_table_in_the_docstring_is_true() -> None:
    table = _table()
    assert set(table) == {"alphaedge", "randps", "nops", "fedweight", "uniweight", "noagg"}
    for name, (weights, peers) in table.items():
        made = getattr(methods, name)()
        assert type(made.aggregation) is weights, name
        assert type(made.selection) is peers, name
        assert METHODS[name] is getattr(methods, name)


@pytest.mark.parametrize(
    "three",
    [(alphaedge_trusting, randps, nops), (alphaedge_paper, randps_paper, nops_paper)],
    ids=["defaults without trial and reset", "paper"],
)
def test_alphaedge_randps_and_nops_differ_in_their_selection_alone(three: tuple[Callable[[], Method], ...]) -> None:
    made = [make() for make in three]
    for field in dataclasses.fields(Method):
        values = [getattr(m, field.name) for m in made]
        if field.name == "selection":
            assert [type(v) for v in values] == [Greedy, Random, Everybody]
        else:
            assert values[0] == values[1] == values[2], field.name


def test_only_alphaedge_puts_peers_on_trial_and_resets_a_useless_mixed_model() -> None:
    assert {name for name in METHODS if method(name).trial is not None} == {"alphaedge"}
    homes = {name: method(name).home for name in METHODS}
    assert {name for name, home in homes.items() if home is not None and home.reset_after} == {"alphaedge"}


def test_the_trusting_alphaedge_differs_in_trial_and_reset_alone() -> None:
    assert alphaedge_trusting() == alphaedge(trial=None, home=Home())


def test_k_and_e_are_the_same_for_all_methods_but_the_literal_readings() -> None:
    peers = [m().selection.peers for m in (alphaedge, randps, fedweight, uniweight)]
    assert peers == [5] * 4
    assert {method(name).aggregate_every for name in METHODS if not name.endswith("-paper")} == {5}


@pytest.mark.parametrize("make", [alphaedge_paper, randps_paper, nops_paper])
def test_the_papers_reading_is_literal(make: Callable[[], Method]) -> None:
    paper = make()
    assert paper.aggregation == Learned(
        steps=10, rate=0.001, start=1.0, newcomer=0.0, remember=False, weight_batches=1, prior=0.0
    )
    assert paper.aggregate_every == 20
    assert paper.precision == "full"
    assert paper.train_on_aggregation is False
    assert paper.adopt_rows is False
    assert paper.statistics == "local"
    assert paper.home is None


def test_the_papers_alphaedge_replaces_one_of_five_in_any_case_at_every_aggregation() -> None:
    assert alphaedge_paper().selection == Greedy(peers=5, replace=1, every=1, keep_better=False, useless=0.0)


@pytest.mark.parametrize("make", [fedweight, uniweight, noagg])
def test_the_other_rivals_train_on_every_batch_and_have_no_home_model(make: Callable[..., Method]) -> None:
    assert make().train_on_aggregation is True
    assert make().home is None


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_of_the_literature_differ_from_fedweight_in_rules_and_home_model_alone(name: str) -> None:
    made, plain = METHODS[name](), fedweight()
    for field in dataclasses.fields(Method):
        if field.name not in ("aggregation", "selection", "home"):
            assert getattr(made, field.name) == getattr(plain, field.name), field.name
    assert (made.home is not None) == (name == "apfl")


def test_rivals_hold_back_no_more_batches_than_alphaedge() -> None:
    assert {name for name in RIVALS if method(name).weight_batches > 1} == {"pens", "fedfomo", "l2c"}
    assert all(method(name).weight_batches <= alphaedge().weight_batches for name in RIVALS)


@pytest.mark.parametrize("name", METHODS)
def test_every_name_makes_a_method(name: str) -> None:
    made = method(name)
    assert isinstance(made, Method)
    assert made == method(name)
    assert hash(made) == hash(method(name))


def test_names_that_end_in_paper_are_the_papers_readings() -> None:
    for name, make, paper in (
        ("alphaedge", alphaedge, alphaedge_paper),
        ("randps", randps, randps_paper),
        ("nops", nops, nops_paper),
    ):
        assert method(f"{name}-paper") == paper()
        assert method(name) == make()


@pytest.mark.parametrize("name", ["", "AlphaEdge", "fedavg", None, 3])
def test_an_unknown_method_is_refused_and_the_known_ones_named(name: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        method(name)
    assert caught.value.field == "methods"
    assert caught.value.found == name
    assert all(known in caught.value.allowed for known in METHODS)


@pytest.mark.parametrize("make", [alphaedge, randps, nops, fedweight, uniweight, noagg])
@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"aggregate_every": 0}, "aggregate_every"),
        ({"aggregate_every": 2.5}, "aggregate_every"),
        ({"statistics": "global"}, "statistics"),
        ({"publish": "all"}, "publish"),
        ({"precision": "int4"}, "precision"),
        ({"min_change": -0.1}, "min_change"),
        ({"min_change": float("inf")}, "min_change"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[..., Method], settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        make(**settings)
    (found,) = settings.values()
    assert caught.value.field == field
    assert caught.value.found == found


def test_one_batch_between_two_aggregations_is_no_weight_batch() -> None:
    assert alphaedge(aggregation=Learned(weight_batches=5), aggregate_every=20).weight_batches == 5
    assert alphaedge(aggregation=Learned(weight_batches=5), aggregate_every=4).weight_batches == 3
    assert alphaedge(aggregation=Learned(weight_batches=5), aggregate_every=1).weight_batches == 1


def test_methods_that_learn_no_weights_take_one_weight_batch() -> None:
    assert {make().weight_batches for make in (fedweight, uniweight, noagg)} == {1}
    assert alphaedge(aggregation=Learned(weight_batches=3)).weight_batches == 3


def test_methods_cannot_be_changed_once_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        alphaedge().aggregate_every = 3


def test_fields_of_a_method_can_be_given_to_the_function_that_makes_it() -> None:
    changed = uniweight(aggregate_every=7, selection=Everybody(), publish="mixed")
    assert (changed.aggregate_every, changed.selection, changed.publish) == (7, Everybody(), "mixed")
    assert changed.aggregation == uniweight().aggregation


@pytest.mark.parametrize("field", ["aggregation", "selection"])
def test_a_rule_that_does_not_fulfil_its_protocol_is_refused_by_field(field: str) -> None:
    with pytest.raises(RuleError, match=rf"^{field}: object is not a rule of this kind"):
        alphaedge(**{field: object()})
    with pytest.raises(RuleError, match=rf"^{field}: Learned is a class; give an instance, such as Learned\(\)"):
        alphaedge(**{field: Learned})
