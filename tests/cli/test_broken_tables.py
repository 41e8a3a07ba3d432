"""Broken tables: each ends with one line that names the column or the file and the remedy, or works with a note."""

import gzip
import io
from collections.abc import Callable
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from alphaedge.cli import app

ROWS = 120
TINY = ["--methods", "noagg", "--batch-size", "10", "--jobs", "1", "--executor", "one-at-a-time"]
HEADER = "when,shop,colour,price,sold"


def row(i: int, **changes: object) -> dict[str, object]:
    day = date.fromordinal(date(2020, 1, 1).toordinal() + i // 3)
    plain = {
        "when": day.isoformat(),
        "shop": ("west", "east", "north")[i % 3],
        "colour": ("red", "blue")[i % 2],
        "price": i / 8,
        "sold": int(i * i % 5 < 2),
    }
    return plain | changes


def csv(change: Callable[[int], dict[str, object]] = lambda i: {}, separator: str = ",", rows: int = ROWS) -> bytes:
    lines = [row(i, **change(i)) for i in range(rows)]
    text = [separator.join(lines[0])] if lines else [HEADER]
    return "\n".join([*text, *(separator.join(map(str, line.values())) for line in lines)]).encode() + b"\n"


def parquet() -> bytes:
    out = io.BytesIO()
    pl.DataFrame([row(i) for i in range(ROWS)]).write_parquet(out)
    return out.getvalue()


# What the table is, its file name, its bytes, further options, and what the line says.
REFUSED: dict[str, tuple[str, bytes, list[str], list[str]]] = {
    "wrong separator": ("t.csv", csv(separator=":"), [], ["one column, ", "commas, semicolons, tabs or |"]),
    "empty file": ("t.csv", b"", [], ["t.csv", "nothing in it", "names of the columns"]),
    "only a header": ("t.csv", csv(rows=0), [], ["no rows", "a row for each event"]),
    "no header": (
        "t.csv",
        csv().partition(b"\n")[2],
        [],
        ["names of columns", "2020-01-01", "a first line with the names"],
    ),
    "duplicate names": (
        "t.csv",
        csv().replace(b"colour", b"price", 1),
        [],
        ["names of columns", "price more than once", "a name of its own"],
    ),
    "constant label": (
        "t.csv",
        csv(lambda i: {"sold": 1}),
        ["--label", "sold"],
        ["label sold", "1 in every row", "--label"],
    ),
    "a label of three texts": (
        "t.csv",
        csv(lambda i: {"sold": ("yes", "no", "maybe")[i % 3]}),
        ["--label", "sold"],
        ["label sold", "3 different texts: maybe, no, yes", "two different values to classify, or numbers"],
    ),
    "no labels at all": (
        "t.csv",
        csv(lambda i: {"sold": ""}),
        ["--label", "sold"],
        ["label sold", "no row with a label"],
    ),
    "text among the labels": (
        "t.csv",
        csv(lambda i: {"sold": "maybe" if i == 100 else i / 7}),
        ["--label", "sold"],
        ["label sold", "'maybe' among numbers", "numbers to regress"],
    ),
    "text among the numbers": (
        "t.csv",
        csv(lambda i: {"price": "cheap" if i == 100 else i / 7}),
        [],
        ["column price", "'cheap' among numbers", "--number, --category or --id price"],
    ),
    "text among numbers that are named": (
        "t.csv",
        csv(lambda i: {"price": "cheap" if i == 100 else i / 7}),
        ["--number", "price"],
        ["number price", "'cheap'", "a number"],
    ),
    "an empty column that is named": (
        "t.csv",
        csv(lambda i: {"price": ""}),
        ["--number", "price"],
        ["number price", "no value", "leave this one out"],
    ),
    "infinite numbers": (
        "t.csv",
        csv(lambda i: {"price": "inf" if i == 7 else i / 8}),
        [],
        ["number price", "inf", "finite"],
    ),
    "thousands or decimals": (
        "t.csv",
        csv(lambda i: {"price": f"{i},{i:03}"}, separator=";"),
        [],
        ["number price", "tell decimals from thousands", "1.234"],
    ),
    "days or months": (
        "t.csv",
        csv(lambda i: {"when": f"{i % 12 + 1}/{i % 7 + 1}/2020"}),
        [],
        ["time when", "tell days from months", "2024-12-31"],
    ),
    "half of the times with a zone": (
        "t.csv",
        csv(lambda i: {"when": f"2020-01-01T10:{i % 60:02}:00" + ("+01:00" if i % 2 else "")}),
        [],
        ["time when", "+01:00 and 2020", "an offset from UTC in every row or in none"],
    ),
    "a missing time": (
        "t.csv",
        csv(lambda i: {"when": "" if i == 50 else "2020-01-01"}),
        [],
        ["column when", "1 rows without"],
    ),
    "a wrong time": (
        "t.csv",
        csv(lambda i: {"when": "soon" if i == 50 else f"2020-01-{i % 28 + 1:02}"}),
        [],
        ["time when", "'soon'"],
    ),
    "a row that is too long": (
        "t.csv",
        csv() + b"2020-02-02,west,red,1,0,1,1\n",
        [],
        ["t.csv", "a row with more values than the header has names", "in quotes"],
    ),
    "as many edges as rows": (
        "t.csv",
        csv(lambda i: {"shop": i}),
        ["--edge", "shop"],
        ["edge shop", "120 edges in 120 rows"],
    ),
    "10,000 edges": (
        "t.csv",
        csv(lambda i: {"shop": f"shop {i % 10_000}"}, rows=30_000),
        ["--edge", "shop"],
        ["edge shop 0: events", "found 3", "a smaller batch size"],
    ),
    "numbers with decimals as ids": ("t.parquet", parquet(), ["--id", "price"], ["id price", "0.125", "whole number"]),
    "gzip that ends early": ("t.csv.gz", gzip.compress(csv())[:-80], [], ["t.csv.gz", "ends early", "fetch it again"]),
    "Parquet that ends early": ("t.parquet", parquet()[:-200], [], ["t.parquet", "a readable CSV or Parquet file"]),
    "CSV called Parquet": ("t.parquet", csv(), [], ["t.parquet", "not Parquet"]),
    "a zip file": ("t.csv", b"PK\x03\x04" + bytes(range(256)), [], ["t.csv", "a zip or Excel file"]),
    "a binary file": ("t.csv", bytes(range(256)) * 4, [], ["t.csv", "binary data", "a CSV file"]),
}

# What the table is, its bytes, further options, and what is printed beside the results.
ACCEPTED: dict[str, tuple[str, bytes, list[str], list[str]]] = {
    "byte order mark": ("t.csv", b"\xef\xbb\xbf" + csv(), [], ["in the order of when"]),
    "an edge with three rows": (
        "t.csv",
        csv(lambda i: {"shop": "south" if i < 3 else ("west", "east")[i % 2]}),
        [],
        ["left out, with fewer events than a batch of", "south (3)", "--batch-size sets another size"],
    ),
    "an outcome in two spellings": (
        "t.csv",
        csv(lambda i: {"sold": ("ja", "Ja", "nein", "Nein")[i % 4]}),
        [],
        ["classify sold", "sold = ja counts as 1"],
    ),
    "Latin-1": ("t.csv", csv(lambda i: {"shop": ("Köln", "Zürich")[i % 2]}).decode().encode("latin-1"), [], ["cp1252"]),
    "UTF-16": ("t.csv", csv().decode().encode("utf-16"), [], ["utf-16"]),
    "gzip": ("t.csv.gz", gzip.compress(csv()), [], ["gzip"]),
    "semicolons and decimal commas": (
        "t.csv",
        csv(lambda i: {"price": f"{i / 8:.1f}".replace(".", ",")}, separator=";"),
        [],
        ["separated by ;", "decimal commas in price"],
    ),
    "an empty column": ("t.csv", csv(lambda i: {"price": ""}), [], ["not used: price (empty)"]),
    "rows without a label": (
        "t.csv",
        csv(lambda i: {"sold": "nan" if i % 10 == 0 else i % 2}),
        [],
        ["note label sold: 12 of 120 rows have none and are left out"],
    ),
    "one edge": (
        "t.csv",
        csv(lambda i: {"shop": "west"}),
        ["--edge", "shop"],
        ["note edge shop: one value only", "--edge"],
    ),
    "two time zones": (
        "t.csv",
        csv(lambda i: {"when": f"2020-01-01T10:{i // 2:02}:00+0{i % 2 + 1}:00"}),
        [],
        ["note time when: offsets from UTC differ (+01:00, +02:00)", "ordered by UTC"],
    ),
    "dates of the future": (
        "t.csv",
        csv(lambda i: {"when": f"{2999 if i == 9 else 2020}-01-01"}),
        [],
        ["note time when: 1 rows are in the future, the last of 2999-01-01"],
    ),
    "all times equal": (
        "t.csv",
        csv(lambda i: {"when": "2020-01-01"}),
        [],
        ["note time when: the same in all rows", "--time"],
    ),
}


def simulate(path: Path, args: list[str], out: Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["simulate", *TINY, "--table", str(path), *args, "--out", str(out)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(("name", "content", "args", "words"), REFUSED.values(), ids=list(REFUSED))
def test_a_broken_table_is_refused_in_one_line_and_nothing_is_written(
    name: str, content: bytes, args: list[str], words: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    code, output = simulate(tmp_path / name, args, tmp_path / "out")
    assert code == 2, output
    (line,) = [line for line in output.splitlines() if line.startswith("error")]
    for word in words:
        assert word in line
    assert list((tmp_path / "out").rglob("*")) == []


@pytest.mark.parametrize(("name", "content", "args", "words"), ACCEPTED.values(), ids=list(ACCEPTED))
def test_an_unusual_table_is_read_and_what_is_unusual_is_said(
    name: str, content: bytes, args: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alphaedge.simulation.results.Results.pictures", lambda self: [])
    (tmp_path / name).write_bytes(content)
    code, output = simulate(tmp_path / name, args, tmp_path / "out")
    assert code == 0, output
    squeezed = " ".join(output.split())
    for word in words:
        assert word in squeezed
        if word.startswith("note "):
            assert word.removeprefix("note ") in (tmp_path / "out" / "summary.json").read_text()


def test_a_folder_is_refused_with_a_pattern_for_its_files(tmp_path: Path) -> None:
    code, output = simulate(tmp_path, [], tmp_path / "out")
    assert code == 2
    assert f"'{tmp_path / '*.csv'}'" in output
