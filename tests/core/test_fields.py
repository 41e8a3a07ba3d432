"""Fields are checked when they are made."""

import pytest

from alphaedge.core.fields import Field
from alphaedge.errors import InvalidValue


def test_a_field_is_one_number_wide_unless_said_otherwise() -> None:
    assert Field("age", "number").size == 1


@pytest.mark.parametrize("kind", ["ids", "", None, "Number"])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Field("age", kind)
    assert caught.value.field == "field age: kind"
    assert caught.value.found == kind
    assert caught.value.allowed == "one of id, category, code, set, number"


@pytest.mark.parametrize("size", [0, -3, 2.5, "4", None, True, float("nan"), float("inf")])
def test_a_size_that_is_no_positive_whole_number_is_refused(size: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        Field("age", "number", size)
    assert caught.value.field == "field age: size"
    assert caught.value.found is size
    assert "whole number of at least 1" in caught.value.allowed
