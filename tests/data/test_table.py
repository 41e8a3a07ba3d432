"""A user's table: the kinds of its columns are named or guessed, and what is invalid is refused by name."""

import math
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from alphaedge import Dataset, Field, InvalidValue
from alphaedge.data.table import Table, describe, guess_columns, load

from .archives import same

ROWS = 400


def sales(**changes: Any) -> pl.DataFrame:
    """Two hundred moments in two shops: an item of many, a colour of few, a price, and whether it was sold."""
    columns: dict[str, Any] = {
        "day": [i // 2 for i in range(ROWS)],
        "shop": ["west", "east"] * (ROWS // 2),
        "item": [f"i{i * 7 % 100:03}" for i in range(ROWS)],
        "colour": [("red", "blue", "green")[i % 3] for i in range(ROWS)],
        "price": [i / 8 for i in range(ROWS)],
        "sold": [int(i % 5 < 2) for i in range(ROWS)],
    }
    return pl.DataFrame(columns | changes, strict=False)


def table(folder: Path, frame: pl.DataFrame | None = None, form: str = "parquet", **said: Any) -> Table:
    frame = sales() if frame is None else frame
    path = folder / f"sales.{form}"
    if form == "csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return Table(**{"file": str(path), "time": "day", "edge": "shop", "label": "sold"} | said)


def refusal(given: Table) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        load(given)
    return caught.value


def numbers(data: Dataset, edge: int = 0) -> list[float]:
    found: list[float] = data.streams[edge].inputs["price"][:, 0].tolist()
    return found


def test_the_raw_values_of_ids_are_kept(tmp_path: Path) -> None:
    numbers_as_ids = sales(item=[1000 + i * 7 % 100 if i else None for i in range(ROWS)])
    for frame, first in ((sales(), "i000"), (numbers_as_ids, "")):
        data = load(table(tmp_path, frame, ids=("item",)))
        values = data.values["item"]
        assert values[0] == first, "a missing value is empty text"
        ordered = frame.with_row_index().sort("shop", "day", "index")["item"].cast(pl.String).fill_null("").to_list()
        assert [values[c] for s in data.streams for c in s.inputs["item"].tolist()] == ordered


def test_csv_and_parquet_give_the_same_data(tmp_path: Path) -> None:
    dates = sales(day=[date(2020, 1, 1) + timedelta(days=i // 2) for i in range(ROWS)])
    for frame in (sales(), dates):
        one, two = (load(table(tmp_path, frame, form)) for form in ("csv", "parquet"))
        assert same(one, two)
        assert (one.name, one.task, one.names, one.label_scale) == (two.name, two.task, two.names, two.label_scale)


def test_rows_become_events_of_their_edge_in_order_of_time(tmp_path: Path) -> None:
    data = load(table(tmp_path, sales().reverse()))
    assert (data.name, data.task, data.names) == ("sales", "classify", ("east", "west"))
    assert data.fields == (Field("item", "id", 100), Field("colour", "category", 3), Field("price", "number", 1))
    east = data.streams[0]
    assert east.times.tolist() == list(range(200))
    assert east.labels.tolist() == [float(i % 5 < 2) for i in range(1, ROWS, 2)]
    assert numbers(data) == [i / 8 for i in range(1, ROWS, 2)]
    assert east.inputs["item"].tolist() == [i * 7 % 100 for i in range(1, ROWS, 2)]
    assert east.inputs["colour"].tolist() == [(2, 0, 1)[i % 3] for i in range(1, ROWS, 2)]


def test_rows_with_equal_times_keep_the_order_of_the_file(tmp_path: Path) -> None:
    data = load(table(tmp_path, sales(day=[0] * ROWS)))
    assert numbers(data) == [i / 8 for i in range(1, ROWS, 2)]


def test_kinds_are_guessed_from_types_and_numbers_of_values(tmp_path: Path) -> None:
    frame = sales(
        few=[i % 64 for i in range(ROWS)],
        many=[i % 65 for i in range(ROWS)],
        half=[i % 200 for i in range(ROWS)],
        user=[i % 65 for i in range(ROWS)],
        nearly_all=[i % 201 for i in range(ROWS)],
        all=[f"receipt {i}" for i in range(ROWS)],
        one=["same"] * ROWS,
        flag=[i % 2 == 0 for i in range(ROWS)],
        when=[date(2020, 1, 1)] * ROWS,
        several=[[1, 2]] * ROWS,
        whole_float=[float(i % 3) for i in range(ROWS)],
    )
    found = guess_columns(table(tmp_path, frame))
    assert found.ids == ("item", "user")
    assert found.categories == ("colour", "few", "flag")
    assert found.numbers == ("price", "many", "half", "several", "whole_float")
    assert found.task == "classify"


def test_naming_one_column_does_not_drop_the_others(tmp_path: Path) -> None:
    found = guess_columns(table(tmp_path, categories=("item",)))
    assert (found.ids, found.categories, found.numbers) == ((), ("item", "colour"), ("price",))


def test_only_named_columns_are_used_on_request(tmp_path: Path) -> None:
    given = table(tmp_path, categories=("item",), only=True)
    found = guess_columns(given)
    assert (found.ids, found.categories, found.numbers) == ((), ("item",), ())
    assert found.used_columns() == ["day", "shop", "sold", "item"]
    assert [f.name for f in load(given).fields] == ["item"]


def test_a_complete_table_stays_as_it_is(tmp_path: Path) -> None:
    found = guess_columns(table(tmp_path))
    assert guess_columns(found) == found
    assert same(load(found), load(table(tmp_path)))


def test_the_guess_is_described(tmp_path: Path) -> None:
    assert guess_columns(table(tmp_path)).describe() == (
        "classify sold by shop in the order of day, from ids item; categories colour; numbers price"
    )


def test_unused_columns_are_listed_with_the_reason(tmp_path: Path) -> None:
    frame = sales(receipt=list(range(ROWS)), counted=[date(2020, 1, 1)] * ROWS, blank=[None] * ROWS, same=["x"] * ROWS)
    reasons = ("receipt (hardly a value recurs)", "counted (time)", "blank (empty)", "same (one value)")
    for form in ("csv", "parquet"):
        assert describe(table(tmp_path, frame, form)).unused == reasons


@pytest.mark.parametrize("between", ["/", "-"])
@pytest.mark.parametrize(
    ("written", "hours"),
    [
        ("%d{0}%m{0}%Y", 24),
        ("%m{0}%d{0}%Y", 24),
        ("%m{0}%d{0}%Y %I:%M %p", 1),
        ("%d{0}%m{0}%Y %H:%M", 1),
    ],
)
def test_days_after_the_twelfth_tell_days_from_months(written: str, hours: int, between: str, tmp_path: Path) -> None:
    moments = [datetime(2024, 2, 25, tzinfo=UTC) + timedelta(hours=hours * (i // 2)) for i in range(ROWS)]
    frame = sales(day=[m.strftime(written.format(between)) for m in moments])
    expected = [m.timestamp() for m in moments[::2]]
    for form in ("csv", "parquet"):
        found = load(table(tmp_path, frame, form))
        assert found.streams[0].times.tolist() == expected


def test_ambiguous_dates_are_refused(tmp_path: Path) -> None:
    """Read the wrong way round they would be out of order, unnoticed."""
    frame = sales(day=[f"{i % 12 + 1}/{i // 2 % 12 + 1}/2024" for i in range(ROWS)])
    for form in ("csv", "parquet"):
        error = refusal(table(tmp_path, frame, form))
        assert error.field == "table: time day"
        assert error.found == "1/1/2024"
        assert "2024-12-31" in error.allowed


def test_a_table_without_inputs_is_refused(tmp_path: Path) -> None:
    error = refusal(table(tmp_path, sales().select("day", "shop", "sold")))
    assert (error.field, error.found) == ("table: columns to learn from", "none")
    assert "name some" in error.allowed


def test_the_edge_may_be_an_input_too(tmp_path: Path) -> None:
    data = load(table(tmp_path, ids=("shop",)))
    assert [set(s.inputs["shop"].tolist()) for s in data.streams] == [{0}, {1}]


def test_only_used_columns_of_a_million_rows_are_read(tmp_path: Path) -> None:
    rows = 1_000_000
    when = pl.int_range(rows, eager=True)
    frame = pl.DataFrame({"day": when, "shop": when % 4, "price": when / 8, "sold": when % 2})
    wide = "wide-text-" * 20
    path = tmp_path / "big.parquet"
    frame.with_columns(pl.lit(wide).alias(f"text {i}") for i in range(20)).write_parquet(
        path, compression="uncompressed", statistics=False
    )
    # No longer text: whoever reads one of these columns fails.
    path.write_bytes(path.read_bytes().replace(wide.encode(), b"\xff" * len(wide)))
    with pytest.raises(pl.exceptions.PolarsError):
        pl.read_parquet(path, columns=["text 7"])
    data = load(Table(file=str(path), time="day", edge="shop", label="sold", numbers=("price",), only=True))
    assert [len(s) for s in data.streams] == [rows // 4] * 4
    assert [f.name for f in data.fields] == ["price"]


EPOCH = datetime(2020, 1, 1)


@pytest.mark.parametrize(
    ("times", "step"),
    [
        ([i / 2 for i in range(ROWS)], 0.5),
        ([EPOCH.date() + timedelta(days=i) for i in range(ROWS)], 86400),
        ([EPOCH + timedelta(minutes=i) for i in range(ROWS)], 60),
        ([EPOCH.replace(tzinfo=UTC) + timedelta(minutes=i) for i in range(ROWS)], 60),
        ([str(i / 2) for i in range(ROWS)], 0.5),
        ([str(EPOCH.date() + timedelta(days=i)) for i in range(ROWS)], 86400),
        ([str(EPOCH + timedelta(minutes=i)) for i in range(ROWS)], 60),
        ([(EPOCH + timedelta(minutes=i)).isoformat() for i in range(ROWS)], 60),
    ],
    ids=["numbers", "dates", "datetimes", "zoned", "number text", "date text", "datetime text", "iso text"],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_times_are_numbers_dates_or_text_of_either(times: list[Any], step: float, form: str, tmp_path: Path) -> None:
    data = load(table(tmp_path, sales(day=times), form))
    found = data.streams[1].times
    torch.testing.assert_close(found - found[0], torch.arange(200, dtype=torch.float64) * 2 * step)
    if step > 1:
        assert found[0].item() == EPOCH.replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("labels", "positive", "classes"),
    [
        (["no", "yes"], "yes", ("no", "yes")),
        ([1, 2], 2, ("1", "2")),
        ([False, True], True, ("false", "true")),
        ([-0.5, 0.5], 0.5, ("-0.5", "0.5")),
        (["b", "a"], "b", ("a", "b")),
        (["ja", "nein"], "ja", ("nein", "ja")),
        (["sold", "not"], "sold", ("not", "sold")),
    ],
)
def test_a_yes_or_the_larger_of_two_values_is_positive_and_the_data_set_says_so(
    labels: list[Any], positive: Any, classes: tuple[str, str], tmp_path: Path
) -> None:
    data = load(table(tmp_path, sales(sold=labels * (ROWS // 2), shop=["a", "a", "b", "b"] * (ROWS // 4))))
    assert data.task == "classify"
    assert data.streams[0].labels.tolist() == [float(v == positive) for v in labels] * 100
    assert data.classes == classes


def test_spellings_of_two_answers_are_two_answers(tmp_path: Path) -> None:
    labels = ["Ja", "nein", "JA ", "Nein"] * (ROWS // 4)
    data = load(guess_columns(table(tmp_path, sales(sold=labels, shop=["a", "b"] * (ROWS // 2)), label="")))
    assert data.classes == ("nein", "ja")
    assert data.streams[0].labels.eq(1).all()
    assert data.streams[1].labels.eq(0).all()


def test_more_than_two_values_are_regressed_at_the_scale_of_the_first(tmp_path: Path) -> None:
    labels = [float(i % 3) for i in range(ROWS)]
    data = load(table(tmp_path, sales(sold=labels)))
    assert data.task == "regress"
    assert data.label_scale == pytest.approx(sum(labels) / ROWS)
    assert data.streams[1].labels.tolist() == labels[::2]
    long = pl.DataFrame(
        {"day": range(3000), "shop": [0, 1] * 1500, "x": [0.5] * 3000, "sold": [4.0, -4.0] * 500 + [1e6] * 2000}
    )
    assert load(table(tmp_path, long)).label_scale == 4, "of the first thousand, not of what comes later"


def test_two_numbers_can_be_regressed_on_request(tmp_path: Path) -> None:
    assert load(table(tmp_path, task="regress")).task == "regress"


def test_rows_without_a_label_are_left_out(tmp_path: Path) -> None:
    labels = [None if i < 100 else i % 5 // 3 for i in range(ROWS)]
    data = load(table(tmp_path, sales(sold=labels)))
    assert [len(s) for s in data.streams] == [150, 150]
    assert data.notes == ("label sold: 100 of 400 rows have none and are left out",)
    error = refusal(table(tmp_path, sales(sold=[None] * ROWS), task="regress"))
    assert (error.field, error.found) == ("table: label sold", "no row with a label")


@pytest.mark.parametrize("missing", [None, math.nan])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_missing_number_is_nan_and_its_field_says_so(missing: float | None, form: str, tmp_path: Path) -> None:
    prices = [missing if i % 3 else float(i) for i in range(ROWS)]
    data = load(table(tmp_path, sales(price=prices), form))
    assert data.fields[-1] == Field("price", "number", 1, missing=True)
    assert [math.isnan(p) for p in numbers(data, 1)] == [i % 3 > 0 for i in range(0, ROWS, 2)]
    assert not load(table(tmp_path)).fields[-1].missing


def test_a_missing_category_is_a_value_of_its_own(tmp_path: Path) -> None:
    data = load(table(tmp_path, sales(colour=[("red", None, "blue", None)[i % 4] for i in range(ROWS)])))
    assert set(data.streams[0].inputs["colour"].tolist()) == {0}
    assert set(data.streams[1].inputs["colour"].tolist()) == {1, 2}


def test_numbers_may_be_written_as_text(tmp_path: Path) -> None:
    data = load(table(tmp_path, sales(price=[f"{i / 8}" for i in range(ROWS)]), numbers=("price",)))
    assert numbers(data, 1) == [i / 8 for i in range(0, ROWS, 2)]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.csv")
    error = refusal(Table(file=missing, time="day", edge="shop", label="sold"))
    assert (error.field, error.found) == ("table: file", missing)
    assert "CSV or Parquet" in error.allowed


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    error = refusal(Table(file=str(tmp_path / "bad.parquet"), time="day", edge="shop", label="sold"))
    assert error.field == f"table: file {tmp_path / 'bad.parquet'}"
    assert "readable" in error.allowed


@pytest.mark.parametrize("part", ["time", "edge", "label", "ids", "categories", "numbers"])
def test_a_missing_column_is_named_with_those_that_exist(part: str, tmp_path: Path) -> None:
    error = refusal(table(tmp_path, **{part: ("nope",) if part.endswith("s") else "nope"}))
    assert (error.field, error.found) == ("table: column", "nope")
    assert error.allowed == "one of day, shop, item, colour, price, sold"


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (["soon"] * ROWS, "soon"),
        (["2020-01-01"] * (ROWS - 1) + ["soon"], "soon"),
        ([1.0] * (ROWS - 1) + [math.inf], math.inf),
        ([i % 2 == 0 for i in range(ROWS)], True),
        ([datetime(2020, 1, 1, 10).time()] * ROWS, datetime(2020, 1, 1, 10).time()),
        pytest.param(
            ["1"] * (ROWS - 1) + ["soon"],
            "soon",
        ),
        pytest.param(
            [timedelta(hours=i) for i in range(ROWS)],
            timedelta(0),
        ),
    ],
    ids=["text", "one text", "infinite", "flags", "time of day", "one text among numbers", "durations"],
)
def test_an_invalid_time_is_named(times: list[Any], found: Any, tmp_path: Path) -> None:
    error = refusal(table(tmp_path, sales(day=times)))
    assert error.field == "table: time day"
    assert error.found in (f"{found!r} in row 1", f"{found!r} in row {ROWS}")
    assert error.allowed == "a number, a date or a date and time"


@pytest.mark.parametrize("column", ["day", "shop"])
def test_missing_times_and_edges_are_counted(column: str, tmp_path: Path) -> None:
    values = [None, None, None, *sales()[column].to_list()[3:]]
    error = refusal(table(tmp_path, sales(**{column: values})))
    assert (error.field, error.found) == (f"table: column {column}", "3 rows without a value, the first is row 1")
    assert error.allowed == "a value in every row"


@pytest.mark.parametrize("task", ["auto", "classify", "regress"])
def test_a_label_that_is_always_the_same_is_refused(task: str, tmp_path: Path) -> None:
    error = refusal(table(tmp_path, sales(sold=[1] * ROWS), task=task))
    assert (error.field, error.found) == ("table: label sold", "1 in every row")
    assert error.allowed.startswith("at least two different values; name another column")


def test_too_many_labels_cannot_be_classified(tmp_path: Path) -> None:
    error = refusal(table(tmp_path, sales(sold=[i % 3 for i in range(ROWS)]), task="classify"))
    assert (error.field, error.found) == ("table: label sold", "3 different values")
    assert "regress" in error.allowed


def test_text_is_refused_as_a_number(tmp_path: Path) -> None:
    error = refusal(table(tmp_path, numbers=("colour",)))
    assert (error.field, error.found, error.allowed) == ("table: number colour", "red", "a number")
    error = refusal(table(tmp_path, sales(sold=sales()["colour"]), numbers=("price",)))
    assert (error.field, error.found) == ("table: label sold", "3 different texts: blue, green, red")


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
@pytest.mark.parametrize("column", ["price", "sold"])
def test_an_infinite_number_is_refused(bad: float, column: str, tmp_path: Path) -> None:
    values = [float(i) for i in range(ROWS - 1)] + [bad]
    error = refusal(table(tmp_path, sales(**{column: values}), numbers=("price",)))
    assert error.field.endswith(f" {column}")
    assert error.found == pytest.approx(bad, nan_ok=True)
    assert error.allowed.startswith("finite numbers")


def test_too_many_edges_for_the_rows_are_refused(tmp_path: Path) -> None:
    error = refusal(table(tmp_path, sales(shop=list(range(ROWS)))))
    assert (error.field, error.found) == ("table: edge shop", "400 edges in 400 rows")
    assert "few values" in error.allowed


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("day", {"label": "day"}),
        ("item", {"ids": ("item",), "categories": ("item",)}),
        ("item", {"ids": ("item", "item")}),
        ("sold", {"numbers": ("sold",)}),
        ("day", {"categories": ("day",)}),
        pytest.param("shop", {"time": "shop"}),
        pytest.param("shop", {"label": "shop"}),
        pytest.param("shop", {"ids": ("shop", "shop")}),
    ],
)
def test_a_column_used_twice_is_named(column: str, said: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidValue) as caught:
        table(tmp_path, **said)
    error = caught.value
    assert (error.field, error.found, error.allowed) == ("table: columns", column, "each column once")


def test_an_unknown_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue) as caught:
        table(tmp_path, task="rank")
    assert (caught.value.field, caught.value.found) == ("table: task", "rank")


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("shop", "edge"),
        ("day", "time"),
        ("sold", "label"),
        ("day", "label"),
        ("sold", "edge"),
        *(
            pytest.param(column, name)
            for column in ("price", "item", "shop")
            for name in ("time", "edge", "label")
            if (column, name) != ("shop", "edge")
        ),
    ],
)
def test_a_column_may_have_any_name(column: str, name: str, tmp_path: Path) -> None:
    def said(item: str, price: str, **others: str) -> dict[str, Any]:
        return {"ids": (item,), "numbers": (price,), **others}

    names = {"item": "item", "price": "price", "time": "day", "edge": "shop", "label": "sold"}
    renamed = {part: name if old == column else old for part, old in names.items()}
    expected = load(table(tmp_path, **said(**names)))
    found = load(table(tmp_path, sales().rename({column: name}), **said(**renamed)))
    for a, b in zip(expected.streams, found.streams, strict=True):
        assert torch.equal(a.labels, b.labels)
        assert torch.equal(a.times, b.times)
        assert all(torch.equal(x, y) for x, y in zip(a.inputs.values(), b.inputs.values(), strict=True))


@pytest.mark.parametrize(
    ("first", "last"), [("1", "1.5"), ("1.5", "many"), ("1", "")], ids=["whole then not", "number then text", "ragged"]
)
def test_a_late_change_of_type_is_read_or_refused_by_name(first: str, last: str, tmp_path: Path) -> None:
    lines = [f"{i},{i % 2},{i // 2 % 2},{first}" for i in range(12_000)]
    lines += [f"{i},{i % 2},{i // 2 % 2},{last or '1,2,3'}" for i in range(12_000, 12_010)]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["day,shop,sold,price", *lines]) + "\n")
    given = Table(file=str(path), time="day", edge="shop", label="sold", numbers=("price",))
    if last == "1.5":
        assert numbers(load(given))[-1] == 1.5
    else:
        assert refusal(given).field.startswith("table: ")
