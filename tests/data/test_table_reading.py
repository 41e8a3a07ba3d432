"""The same events are the same data set, however they are written; several files are one table."""

import gzip
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import Dataset, Field, InvalidValue
from alphaedge.data.table import Table, describe, load
from alphaedge.values import canonical

from .archives import same

ROWS = 120


def sales(**changes: Any) -> pl.DataFrame:
    columns: dict[str, Any] = {
        "when": [datetime(2024, 2, 25) + timedelta(hours=i // 3) for i in range(ROWS)],
        "shop": ["Ålesund", "Zürich", "Gdańsk"] * (ROWS // 3),
        "item": [i * 7 % 40 for i in range(ROWS)],
        "price": [i / 8 for i in range(ROWS)],
        "sold": [int(i * i % 5 < 2) for i in range(ROWS)],
    }
    return pl.DataFrame(columns | changes, strict=False)


def csv(frame: pl.DataFrame, **options: Any) -> str:
    return frame.write_csv(**options)


def data(folder: Path, content: bytes, name: str = "t.csv", **said: Any) -> Dataset:
    (folder / name).write_bytes(content)
    return load(Table(**{"file": str(folder / name), "time": "when", "edge": "shop", "label": "sold"} | said))


def parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_separator_encoding_gzip_and_line_ends_do_not_matter(
    separator: str, encoding: str, compressed: bool, newline: str, tmp_path: Path
) -> None:
    frame = sales(shop=["Ålesund", "Zürich", "Köln"] * (ROWS // 3))
    raw = csv(frame, separator=separator).replace("\n", newline).encode(encoding)
    found = data(tmp_path, gzip.compress(raw) if compressed else raw)
    assert same(found, data(tmp_path, parquet(frame), "t.parquet"))
    assert found.names == ("Köln", "Zürich", "Ålesund")


def test_how_a_file_is_written_is_told_where_it_is_not_plain(tmp_path: Path) -> None:
    frame = sales(shop=["Ålesund", "Zürich", "Köln"] * (ROWS // 3))
    (tmp_path / "a.csv").write_text(csv(frame))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(csv(frame, separator=";", decimal_comma=True).encode("latin-1")))
    plain, other = (describe(Table(file=str(tmp_path / name))) for name in ("a.csv", "b.csv.gz"))
    assert plain.reading == ""
    assert other.reading == "separated by ;, cp1252, gzip, decimal commas in price"
    assert plain.columns == other.columns


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25]),
        (["1.234,5", "2", "1.234.567,0"], [1234.5, 2, 1234567]),
        (["1,234.5", "2", "1,234,567"], [1234.5, 2, 1234567]),
        (["1.234", "2", "-5.678"], [1.234, 2, -5.678]),
        (["1e3", " 2 ", "+3"], [1000, 2, 3]),
    ],
)
def test_decimals_and_thousands_are_told_apart(prices: list[str], expected: list[float], tmp_path: Path) -> None:
    frame = sales(price=[prices[i // 3 % 3] for i in range(ROWS)])
    for name, content in (("t.csv", csv(frame, separator=";").encode()), ("t.parquet", parquet(frame))):
        found = data(tmp_path, content, name, numbers=("price",)).streams[0].inputs["price"][:3, 0]
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))


def test_what_one_column_leaves_open_another_one_tells(tmp_path: Path) -> None:
    frame = sales(price=["1.234"] * ROWS, weight=[f"{i},5" for i in range(ROWS)])
    found = data(tmp_path, csv(frame, separator=";").encode())
    assert found.streams[0].inputs["price"][0].item() == 1234


def test_a_number_in_another_form_far_from_the_start_is_refused(tmp_path: Path) -> None:
    rows = 250_000
    lines = [f"{i};{i % 2};{i // 2 % 2};{i},5" for i in range(rows)] + [f"{rows};0;0;1.5"]
    with pytest.raises(InvalidValue) as caught:
        data(tmp_path, "\n".join(["when;shop;sold;price", *lines]).encode())
    assert (caught.value.field, caught.value.found) == ("table: number price", "1.5")


@given(values=st.lists(st.integers(-(10**15), 10**15), min_size=2, max_size=12, unique=True))
def test_a_whole_number_is_one_id_in_csv_and_in_every_type_of_parquet(
    values: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    written = [values[i % len(values)] for i in range(ROWS)]
    frames = [sales(item=pl.Series(written).cast(dtype)) for dtype in (pl.Int64, pl.Float64, pl.String)]
    contents = [("t.parquet", parquet(frame)) for frame in frames] + [("t.csv", csv(f).encode()) for f in frames]
    kinds: Sequence[dict[str, Any]] = [{"ids": ("item",)}, {"categories": ("item",)}]
    for said in kinds:
        found = [data(folder, content, name, **said) for name, content in contents]
        assert all(same(found[0], other) for other in found)
        assert {tuple(f.values["item"]) for f in found} == {tuple(sorted(map(str, values)))}
        assert set(found[0].values["item"]) == {canonical(str(v).encode()) for v in values}, "as a caller's BYTES"


@given(values=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8), min_size=2))
def test_text_is_one_id_in_csv_and_parquet(values: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ids")
    frame = sales(item=[values[i % len(values)] for i in range(ROWS)])
    one = data(folder, csv(frame, quote_style="always").encode(), ids=("item",))
    two = data(folder, parquet(frame), "t.parquet", ids=("item",))
    assert same(one, two)
    assert one.values["item"] == two.values["item"] == tuple(sorted({canonical(v) for v in values[:ROWS]}))


def test_leading_zeros_of_ids_stay(tmp_path: Path) -> None:
    frame = sales(item=[f"{i % 9:03}" for i in range(ROWS)])
    for name, content in (("t.csv", csv(frame).encode()), ("t.parquet", parquet(frame))):
        found = data(tmp_path, content, name)
        assert found.values["item"] == tuple(f"{i:03}" for i in range(9))
        assert found.fields[0] == Field("item", "category", 9)


def test_edges_that_are_numbers_are_in_their_order_and_have_one_name(tmp_path: Path) -> None:
    frames = [
        sales(shop=pl.Series([2, 10, 1] * (ROWS // 3)).cast(dtype)) for dtype in (pl.Int64, pl.Float64, pl.String)
    ]
    for frame in frames:
        for name, content in (("t.csv", csv(frame).encode()), ("t.parquet", parquet(frame))):
            assert data(tmp_path, content, name).names == ("1", "2", "10")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_a_pattern_are_one_table(form: str, tmp_path: Path) -> None:
    whole = data(tmp_path, parquet(sales()), "t.parquet")
    for number, part in enumerate((sales()[:50], sales()[50:].select(reversed(sales().columns)))):
        content = csv(part, separator=",;"[number]).encode() if form == "csv" else parquet(part)
        (tmp_path / f"part{number}.{form}").write_bytes(content)
    found = load(Table(file=str(tmp_path / f"part*.{form}"), time="when", edge="shop", label="sold"))
    assert same(found, whole)
    assert found.name == tmp_path.name


def test_places_in_files_of_their_own_are_found(tmp_path: Path) -> None:
    for place in ("north", "south"):
        (tmp_path / f"{place}.csv").write_text(csv(sales(shop=[place] * ROWS)))
    assert load(Table(file=str(tmp_path / "*.csv"))).names == ("north", "south")


@pytest.mark.parametrize(
    ("second", "field", "found"),
    [
        (sales().drop("price"), "table: columns of {}", "no price"),
        (sales(weight=[1] * ROWS), "table: columns of {}", "weight besides"),
        (sales(price=["a"] * ROWS), "table: column price of {}", "String"),
    ],
)
def test_a_file_with_other_columns_is_named(second: pl.DataFrame, field: str, found: str, tmp_path: Path) -> None:
    for name, frame in (("a.parquet", sales()), ("b.parquet", second)):
        frame.write_parquet(tmp_path / name)
    with pytest.raises(InvalidValue) as caught:
        load(Table(file=str(tmp_path / "*.parquet")))
    assert (caught.value.field, caught.value.found) == (field.format(tmp_path / "b.parquet"), found)
    assert str(tmp_path / "a.parquet") in caught.value.allowed


@pytest.mark.parametrize(
    "written",
    ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00", "%Y-%m-%d %H:%M UTC", "%d.%m.%Y %H:%M", "%d %b %Y %H:%M"],
)
def test_times_in_usual_forms_are_seconds_since_1970(written: str, tmp_path: Path) -> None:
    times = sales()["when"].dt.strftime(written)
    found = data(tmp_path, csv(sales(when=times)).encode())
    assert found.streams[0].times[0].item() == datetime(2024, 2, 25, tzinfo=UTC).timestamp()
    assert same(found, data(tmp_path, parquet(sales()), "t.parquet"))


def test_offsets_from_utc_are_taken_off(tmp_path: Path) -> None:
    zones = ["+02:00", "-0330", "Z"]
    times = [f"2024-05-01T12:{i // 3:02}:00.5{zones[i % 3]}" for i in range(ROWS)]
    found = data(tmp_path, csv(sales(when=times)).encode())
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp() + 0.5
    assert [s.times[0].item() - noon for s in found.streams] == [0, 3.5 * 3600, -2 * 3600]  # Gdańsk, Zürich, Ålesund
    assert found.notes[0].startswith("time when: offsets from UTC differ (+02:00, -0330, Z)")


def test_days_are_told_from_months_by_all_rows(tmp_path: Path) -> None:
    """The first rows of a large table may all be of the first days of a month."""
    days = [f"{1 + i // 60_000}/1/2024" for i in range(60_000 * 14)]
    frame = pl.DataFrame({"when": days}).with_columns(
        shop=pl.int_range(pl.len()) % 2, sold=pl.int_range(pl.len()) // 2 % 2, price=pl.lit(0.5)
    )
    found = data(tmp_path, csv(frame).encode())
    assert found.streams[0].times[-1].item() == datetime(2024, 1, 14, tzinfo=UTC).timestamp()


def test_many_edges_are_noted(tmp_path: Path) -> None:
    frame = pl.DataFrame({"when": range(30_000)}).with_columns(
        shop=pl.col("when") % 10_000, price=pl.lit(0.5), sold=pl.col("when") // 10_000 % 2
    )
    found = data(tmp_path, parquet(frame), "t.parquet")
    assert found.notes == (
        "edge shop: 10,000 edges with 3 rows on average; if that is too fine, name a coarser column with --edge",
    )
