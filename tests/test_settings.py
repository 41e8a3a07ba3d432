"""Settings that a simulation and a live edge share: rules and methods of one's own, refused with their field."""

import pytest

from alphaedge import Adam, Greedy, InvalidValue, Learned, MethodSettings
from alphaedge.core.methods import alphaedge
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.errors import AlphaEdgeError, RuleError
from alphaedge.settings import check_method, method_name, online

from .own_rules import Familiar, Median, NextInLine, SignDescent, familiar, median


def test_a_rule_by_import_path_takes_the_place_of_the_learned_weights() -> None:
    method = MethodSettings(aggregation="tests.own_rules:Familiar").apply("alphaedge")
    assert method.aggregation == Familiar()
    assert method.selection == Greedy()
    assert method.home == alphaedge().home


def test_a_selection_by_import_path_takes_overrides_that_it_has_a_field_for() -> None:
    method = MethodSettings(selection="tests.own_rules:NextInLine", peers=4, replace=2, select_every=3).apply("nops")
    assert method.selection == NextInLine(peers=4, every=3)
    assert method.aggregation == Learned()


def test_a_method_by_import_path_takes_overrides_too() -> None:
    assert MethodSettings().apply("tests.own_rules:median") == median()
    assert MethodSettings(aggregate_every=7).apply("robust=tests.own_rules:median") == median(aggregate_every=7)
    assert MethodSettings(select_every=2).apply("tests.own_rules:familiar").selection.every == 2
    assert MethodSettings(home=False, weight_rate=0.5).apply("tests.own_rules:familiar") == familiar()


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("alphaedge", "alphaedge"),
        ("tests.own_rules:median", "median"),
        ("robust=tests.own_rules:median", "robust"),
        ("tests.own_rules:Methods.median", "Methods.median"),
    ],
)
def test_a_method_is_called_by_its_own_name_or_the_one_it_is_given(spec: str, name: str) -> None:
    assert method_name(spec) == name


@pytest.mark.parametrize("spec", ["magic", "", "robust=median"])
def test_what_is_neither_a_method_nor_an_import_path_is_refused(spec: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        check_method("methods", spec)
    assert (caught.value.field, caught.value.found) == ("methods", spec)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"aggregation": "tests.nowhere:Rule"}, InvalidValue, "method.aggregation: found 'tests.nowhere:Rule'"),
        ({"aggregation": "median"}, InvalidValue, "method.aggregation: found 'median'; allowed: an import path"),
        ({"aggregation": "tests.own_rules:NO_RULE"}, RuleError, "aggregation: int is not a rule of this kind"),
        ({"aggregation": "tests.own_rules:NextInLine"}, RuleError, "aggregation: NextInLine is not a rule"),
        ({"selection": "tests.nowhere:Rule"}, InvalidValue, "method.selection: found 'tests.nowhere:Rule'"),
        ({"selection": "tests.own_rules:Median"}, RuleError, "selection: Median is not a rule of this kind"),
    ],
)
def test_what_cannot_be_imported_or_is_no_rule_is_refused_with_the_field(
    settings: dict[str, str], error: type[AlphaEdgeError], text: str
) -> None:
    with pytest.raises(error) as caught:
        MethodSettings(**settings).apply("alphaedge")
    assert str(caught.value).startswith(text)


def test_what_makes_no_method_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        MethodSettings().apply("m=tests.own_rules:Median")
    assert (caught.value.field, caught.value.found) == ("methods", "m=tests.own_rules:Median")
    assert "alphaedge.Method, not Median" in caught.value.allowed


@pytest.mark.parametrize("name", ["weight_rate", "weight_steps", "weight_batches", "newcomer", "remember"])
def test_settings_of_learned_weights_are_refused_beside_a_rule_of_ones_own(name: str) -> None:
    settings = MethodSettings(aggregation="tests.own_rules:Median", **{name: 1})
    with pytest.raises(InvalidValue) as caught:
        settings.apply("alphaedge")
    assert caught.value.field == f"method.{name}"
    assert "aggregation = tests.own_rules:Median" in caught.value.allowed


def test_an_optimizer_by_import_path_takes_the_place_of_adam() -> None:
    assert online(0.01, "lazy", 0.1, 2).optimizer == Adam(0.01)
    assert online(0.01, "dense", 0.1, 1).optimizer == Adam(0.01, lazy_rows=False)
    own = online(0.01, "adagrad", 0.1, 2, "tests.own_rules:SignDescent")
    assert (own.optimizer, own.row_optimizer, own.local_steps) == (SignDescent(), Adagrad(0.1), 2)
    assert online(0.01, "lazy", 0.1, 1, "tests.own_rules:SignDescent").for_rows == SignDescent()


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        ("tests.nowhere:Rule", InvalidValue, "optimizer: found 'tests.nowhere:Rule'"),
        ("tests.own_rules:Median", RuleError, "optimizer: Median is not a rule of this kind: lazy_rows is missing"),
    ],
)
def test_an_optimizer_that_is_none_is_refused_with_the_field(path: str, error: type[AlphaEdgeError], text: str) -> None:
    with pytest.raises(error) as caught:
        online(0.01, "lazy", 0.1, 1, path)
    assert str(caught.value).startswith(text)
    assert Median()  # it is a rule, of another kind
