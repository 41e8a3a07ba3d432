"""Time, edge and label are guessed from names, types and values; where two columns fit equally well, both are named."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alphaedge import InvalidValue
from alphaedge.data.table import Table, guess_columns

ROWS = 400
DAYS = [date(2024, 1, 1) + timedelta(days=i // 4) for i in range(ROWS)]
PLACES = ["oslo", "rome", "bonn", "cork"] * (ROWS // 4)
OUTCOMES = [int(i % 5 < 2) for i in range(ROWS)]
MEASURED = [i / 8 for i in range(ROWS)]
PLAIN: dict[str, Any] = {"when": DAYS, "shop": PLACES, "price": MEASURED, "sold": OUTCOMES}


def guess(folder: Path, columns: dict[str, Any], form: str = "csv", **said: Any) -> Table:
    frame = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
    path = folder / f"t.{form}"
    if form == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return guess_columns(Table(file=str(path), **said))


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("when", "shop", "sold")),
        ({"when": None, "x": DAYS}, ("x", "shop", "sold")),
        ({"other": DAYS[::-1], "birth_date": DAYS}, ("when", "shop", "sold")),
        ({"when": None, "ts": list(range(ROWS))}, ("ts", "shop", "sold")),
        ({"when": None, "EventTime": MEASURED}, ("EventTime", "shop", "sold")),
        ({"when": None, "day": [i // 4 for i in range(ROWS)]}, ("day", "shop", "sold")),
        ({"shop": None, "store_id": [i % 7 for i in range(ROWS)]}, ("when", "store_id", "sold")),
        ({"shop": None, "who": PLACES}, ("when", "who", "sold")),
        ({"kind": PLACES}, ("when", "shop", "sold")),
        ({"sold": None, "is_clicked": OUTCOMES, "flag": OUTCOMES}, ("when", "shop", "is_clicked")),
        ({"sold": None, "q": ["a", "b"] * (ROWS // 2)}, ("when", "shop", "q")),
        ({"sold": None, "level": MEASURED[::-1]}, ("when", "shop", "level")),
    ],
    ids=lambda value: ", ".join(value) or "plain",
)
def test_time_edge_and_label_are_guessed(
    changes: dict[str, Any], expected: tuple[str, str, str], form: str, tmp_path: Path
) -> None:
    found = guess(tmp_path, PLAIN | changes, form)
    assert (found.time, found.edge, found.label) == expected


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"date": DAYS}, "time: when or date"),
        ({"when": None}, "time: no column looks like it"),
        ({"city": PLACES}, "edge: shop or city"),
        ({"shop": None, "who": PLACES, "what": PLACES}, "edge: who or what"),
        ({"shop": None}, "edge: no column looks like it"),
        ({"clicked": OUTCOMES}, "label: sold or clicked"),
        ({"sold": None, "a": OUTCOMES, "b": OUTCOMES}, "label: a or b"),
    ],
)
def test_what_fits_equally_well_or_not_at_all_is_refused_with_the_option_to_use(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue) as caught:
        guess(tmp_path, PLAIN | changes)
    assert caught.value.found == reason
    assert f"name the column with --{reason.partition(':')[0]}; there are " in caught.value.allowed


def test_a_named_column_is_not_guessed_to_be_another(tmp_path: Path) -> None:
    found = guess(tmp_path, PLAIN | {"city": PLACES}, categories=("shop",))
    assert (found.edge, found.categories) == ("city", ("shop",))
    found = guess(tmp_path, PLAIN | {"clicked": OUTCOMES}, label="clicked")
    assert (found.label, found.categories) == ("clicked", ("sold",))


def test_ids_that_recur_only_in_the_whole_table_are_used(tmp_path: Path) -> None:
    """The first rows of a large table may have a new id each."""
    rows = 300_000
    when = pl.int_range(rows, eager=True)
    columns = {"t": when, "shop": when % 3, "item": when % 90_000, "receipt": when * 7, "sold": when // 3 % 2}
    for form in ("csv", "parquet"):
        assert guess(tmp_path, columns, form).ids == ("item",)


def test_the_first_rows_may_all_be_of_one_place(tmp_path: Path) -> None:
    rows = 300_000
    when = pl.int_range(rows, eager=True)
    columns = {"t": when, "region": when // (rows // 3), "x": when / 8, "sold": when % 2}
    assert guess(tmp_path, columns, "parquet").edge == "region"
