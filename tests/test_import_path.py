"""Import paths name code of the operator's own; what can't be imported or called is refused by field."""

import pytest

from alphaedge.errors import InvalidValue
from alphaedge.import_path import is_import_path, load_object, make_object

from . import own_rules
from .own_rules import Median, NextInLine


@pytest.mark.parametrize(
    ("text", "is_path"), [("tests.own_rules:Median", True), ("m=a:b", True), ("alphaedge", False), ("", False)]
)
def test_an_import_path_has_a_colon(text: str, is_path: bool) -> None:
    assert is_import_path(text) == is_path


def test_a_path_names_an_object_or_what_is_in_it() -> None:
    assert load_object("field", "tests.own_rules:Median") is Median
    assert load_object("field", "tests.own_rules:NextInLine.first") is NextInLine.first


def test_classes_and_functions_are_called_and_values_taken_as_they_are() -> None:
    assert make_object("field", "tests.own_rules:Median") == Median()
    assert make_object("field", "tests.own_rules:median") == own_rules.median()
    assert make_object("field", "tests.own_rules:NO_RULE") == 3


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("tests.own_rules", "an import path, package.module:name"),
        ("tests.own_rules:", "an import path"),
        (":Median", "an import path"),
        ("tests/own_rules.py:Median", "an import path"),
        ("tests.own_rules:Median()", "an import path"),
        ("os:system('true')", "an import path"),
        ("tests.nowhere:Median", "something that can be imported (No module named 'tests.nowhere')"),
        ("tests.own_rules:Mode", "something that can be imported (module 'tests.own_rules' has no attribute 'Mode')"),
        ("tests.own_rules:Median.no", "something that can be imported"),
        ("tests.own_rules:needs_an_argument", "something that can be called without arguments"),
    ],
)
def test_what_cannot_be_imported_or_called_is_refused_by_field_and_reason(path: str, allowed: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        make_object("method.aggregation", path)
    assert (caught.value.field, caught.value.found) == ("method.aggregation", path)
    assert caught.value.allowed.startswith(allowed)
