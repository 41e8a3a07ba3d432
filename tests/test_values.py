"""What is one id is one id everywhere: in CSV, Parquet, JSON and the bytes of a request."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.data.table import Table, load
from alphaedge.edge.config import FieldConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.errors import InvalidValue
from alphaedge.inference.client_codec import encode_request
from alphaedge.inference.server_codec import parse_request
from alphaedge.inference.tensors import JSON_LENGTH_HEADER
from alphaedge.values import canonical

SECRET = b"0123456789abcdef"
FEATURES = Features([FieldConfig(name="item", kind="id", size=100)], SECRET)
# Each row: spellings that mean one id.
SAME: list[list[Any]] = [
    [7, "7", 7.0, "7.0", " 7 ", b"7"],
    ["Caf\u00e9", "Cafe\u0301", b"Caf\xc3\xa9", " Caf\u00e9\n"],
    ["007", b"007"],
    [True, "True", "true"],
    ["", None, float("nan"), "  "],
    [2**60, str(2**60)],
    [-3, "-3", -3.0],
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda s: repr(s[0]))
def test_spellings_of_one_value_have_one_form_and_one_key(spellings: list[Any]) -> None:
    assert len({canonical(value) for value in spellings}) == 1
    assert len({key_of(value, SECRET) for value in spellings}) == 1


def test_different_values_stay_different() -> None:
    forms = [canonical(spellings[0]) for spellings in SAME]
    assert len(set(forms)) == len(SAME)


@given(st.text())
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert canonical(canonical(text)) == canonical(text)
    assert canonical(unicodedata.normalize("NFD", text)) == canonical(text)
    assert (
        canonical(text.encode(errors="surrogatepass")) == canonical(text)
        or "\ud800" <= max(text, default="") <= "\udfff"
    )


@given(st.integers(-(2**53), 2**53))
def test_whole_numbers_are_one_value_in_every_type(number: int) -> None:
    assert canonical(number) == canonical(float(number)) == canonical(str(number)) == canonical(f"{number}.0")


@pytest.mark.parametrize("number", [0.5, float("inf")])
def test_other_numbers_are_refused_as_ids(number: float) -> None:
    with pytest.raises(InvalidValue, match="whole number"):
        canonical(number)


def as_json(values: list[Any]) -> Any:
    datatype = "BYTES" if isinstance(values[0], str | None) else "INT64"
    body = {"inputs": [{"name": "item", "shape": [len(values)], "datatype": datatype, "data": values}]}
    return parse_request(json.dumps(body).encode(), None).inputs["item"]


def as_binary(values: list[Any]) -> Any:
    array = np.array([("" if v is None else v) for v in values], dtype=object if isinstance(values[0], str) else None)
    body, headers = encode_request({"item": array})
    return parse_request(body, headers[JSON_LENGTH_HEADER]).inputs["item"]


@pytest.mark.parametrize("route", [as_json, as_binary])
@pytest.mark.parametrize("values", [[7, 12, 7], ["7", "12", "7.0"], ["Caf\u00e9", "Cafe\u0301", ""]])
def test_a_caller_names_the_ids_of_a_table(
    route: Callable[[list[Any]], Any], values: list[Any], tmp_path: Path
) -> None:
    keys = FEATURES.encode({"item": route(values)})["item"].tolist()
    assert keys == [key_of(value, SECRET) for value in values]
    known = table_values(tmp_path, values)
    assert set(keys) == {key_of(form, SECRET) for form in known}


def table_values(folder: Path, values: list[Any]) -> set[str]:
    """The values of a Parquet table with this column."""
    rows = 40
    column = [values[i % len(values)] for i in range(rows)]
    frame = pl.DataFrame({"t": range(rows), "place": ["a", "b"] * (rows // 2), "item": column, "y": [0, 0, 1, 1] * 10})
    frame.write_parquet(folder / "table.parquet")
    table = Table(file=str(folder / "table.parquet"), time="t", edge="place", label="y", ids=("item",))
    return set(load(table).values["item"])


def test_null_is_the_missing_value() -> None:
    assert FEATURES.encode({"item": as_json(["a", None])})["item"].tolist()[1] == key_of("", SECRET)
    long = as_json(["x" * 50] * 3000 + [None])  # read in pieces
    assert FEATURES.encode({"item": long})["item"].tolist()[-1] == key_of("", SECRET)


def test_a_missing_number_is_refused_unless_its_field_may_miss() -> None:
    body = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1.5, None]}]}
    inputs = parse_request(json.dumps(body).encode(), None).inputs
    with pytest.raises(InvalidValue, match="missing = true"):
        Features([FieldConfig(name="x", kind="number")], SECRET).encode(inputs)
    found = Features([FieldConfig(name="x", kind="number", missing=True)], SECRET).encode(inputs)["x"]
    assert found[0] == 1.5
    assert np.isnan(found[1])
