"""The six methods are the compositions that their table says."""

import dataclasses
from collections.abc import Callable

import pytest

from alphaedge.core import methods
from alphaedge.core.aggregation import Alone, ByRecords, Learned, Uniform
from alphaedge.core.methods import METHODS, AlphaEdge, FedWeight, Method, NoAgg, NoPS, RandPS, UniWeight, method
from alphaedge.core.selection import Everybody, Fixed, Greedy, Nobody, Random
from alphaedge.errors import InvalidValue

WEIGHTS = {"learned": Learned, "by records learned": ByRecords, "equal": Uniform, "alone": Alone}
PEERS = {
    "greedy, two hops": Greedy,
    "K random ones, anew each time": Random,
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
    assert set(table) == {"AlphaEdge", "RandPS", "NoPS", "FedWeight", "UniWeight", "NoAgg"}
    for name, (weights, peers) in table.items():
        made = getattr(methods, name)()
        assert type(made.aggregation) is weights, name
        assert type(made.selection) is peers, name
        assert METHODS[name.lower()] is getattr(methods, name)


@pytest.mark.parametrize("make", [lambda kind: kind(), lambda kind: kind.paper()], ids=["defaults", "paper"])
def test_alphaedge_randps_and_nops_differ_in_their_selection_alone(make: Callable[[type], Method]) -> None:
    made = [make(kind) for kind in (AlphaEdge, RandPS, NoPS)]
    for field in dataclasses.fields(Method):
        values = [getattr(m, field.name) for m in made]
        if field.name == "selection":
            assert [type(v) for v in values] == [Greedy, Random, Everybody]
        else:
            assert values[0] == values[1] == values[2], field.name


def test_k_is_the_same_for_all_methods() -> None:
    peers = [m().selection.peers for m in (AlphaEdge, RandPS, FedWeight, UniWeight)]
    assert peers == [5] * 4
    assert {method(name).aggregate_every for name in METHODS} == {20}


@pytest.mark.parametrize("kind", [AlphaEdge, RandPS, NoPS])
def test_the_papers_reading_is_literal(kind: type[AlphaEdge] | type[RandPS] | type[NoPS]) -> None:
    paper = kind.paper()
    assert paper.aggregation == Learned(
        steps=10, rate=0.001, start=1.0, newcomer=0.0, remember=False, batches=1, pull=0.0
    )
    assert paper.aggregate_every == 20
    assert paper.train_on_aggregation is False
    assert paper.adopt_rows is False
    assert paper.statistics == "local"
    assert paper.home is None
    assert type(paper) is kind


def test_the_papers_alphaedge_replaces_one_of_five_in_any_case_at_every_aggregation() -> None:
    assert AlphaEdge.paper().selection == Greedy(peers=5, replace=1, every=1, keep_better=False, useless=0.0)


@pytest.mark.parametrize("kind", [FedWeight, UniWeight, NoAgg])
def test_the_other_rivals_train_on_every_batch_and_have_no_home_model(kind: type[Method]) -> None:
    assert kind().train_on_aggregation is True
    assert kind().home is None


@pytest.mark.parametrize("name", METHODS)
def test_every_name_makes_a_method(name: str) -> None:
    made = method(name)
    assert isinstance(made, Method)
    assert made == method(name)
    assert hash(made) == hash(method(name))


def test_names_that_end_in_paper_are_the_papers_readings() -> None:
    for name, kind in (("alphaedge", AlphaEdge), ("randps", RandPS), ("nops", NoPS)):
        assert method(f"{name}-paper") == kind.paper()
        assert method(name) == kind()


@pytest.mark.parametrize("name", ["", "AlphaEdge", "fedavg", None, 3])
def test_an_unknown_method_is_refused_and_the_known_ones_named(name: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        method(name)
    assert caught.value.field == "methods"
    assert caught.value.found == name
    assert all(known in caught.value.allowed for known in METHODS)


@pytest.mark.parametrize("kind", [AlphaEdge, RandPS, NoPS, FedWeight, UniWeight, NoAgg])
@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"aggregate_every": 0}, "aggregate_every"),
        ({"aggregate_every": 2.5}, "aggregate_every"),
        ({"statistics": "global"}, "statistics"),
        ({"publish": "all"}, "publish"),
    ],
)
def test_impossible_settings_are_refused(kind: type[Method], settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        kind(**settings)
    (found,) = settings.values()
    assert caught.value.field == field
    assert caught.value.found == found


def test_at_most_half_of_the_batches_between_two_aggregations_are_gathered_for_the_weights() -> None:
    assert AlphaEdge(aggregation=Learned(batches=5), aggregate_every=20).gathered == 5
    assert AlphaEdge(aggregation=Learned(batches=5), aggregate_every=4).gathered == 2
    assert AlphaEdge(aggregation=Learned(batches=5), aggregate_every=1).gathered == 1


def test_methods_that_learn_no_weights_gather_one_batch() -> None:
    assert {kind().gathered for kind in (FedWeight, UniWeight, NoAgg)} == {1}
    assert AlphaEdge(aggregation=Learned(batches=3)).gathered == 3


def test_methods_cannot_be_changed_once_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        AlphaEdge().aggregate_every = 3
