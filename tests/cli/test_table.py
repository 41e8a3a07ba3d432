"""``alphaedge simulate --table``: prints how the table is read, refuses mistakes, and repeats a saved run."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from alphaedge import Results
from alphaedge.cli import app
from alphaedge.simulation.config import load

ROWS = 120
TINY = ["--methods", "noagg", "--batch-size", "10", "--jobs", "1", "--executor", "one-at-a-time"]
NAMED = ["--time", "day", "--edge", "shop", "--label", "sold"]


def sales(**changes: Any) -> pl.DataFrame:
    columns: dict[str, Any] = {
        "day": [f"2020-{1 + i // 28 % 12:02}-{1 + i % 28:02}" for i in range(ROWS)],
        "shop": ["west", "east", "north"] * (ROWS // 3),
        "colour": [("red", "blue")[i % 2] for i in range(ROWS)],
        "price": [i / 8 for i in range(ROWS)],
        "sold": [("no", "yes")[i * i % 5 < 2] for i in range(ROWS)],
    }
    return pl.DataFrame(columns | changes, strict=False)


def simulate(*args: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *TINY, *args])


def run(folder: Path, frame: pl.DataFrame, *args: str, named: list[str] = NAMED) -> Result:
    path = folder / "sales.csv"
    frame.write_csv(path)
    return simulate("--table", str(path), *named, *args)


def squeezed(result: Result) -> str:
    return " ".join(result.output.split())


def test_how_the_table_is_read_is_printed_before_anything_runs(tmp_path: Path) -> None:
    result = run(tmp_path, sales())
    assert result.exit_code == 0, result.output
    reading = "classify sold by shop in the order of day, from categories colour; numbers price"
    assert reading in squeezed(result)
    assert squeezed(result).index(reading) < squeezed(result).index("edge-batches")


def test_with_a_dash_standard_output_has_the_summary_only(tmp_path: Path) -> None:
    result = run(tmp_path, sales(), "--json", "-")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["edges"], summary["metric"]) == (3, "AUC")
    assert "classify sold by shop" in " ".join(result.stderr.split())


def test_naming_a_column_does_not_drop_the_others(tmp_path: Path) -> None:
    result = run(tmp_path, sales(), "--id", "colour")
    assert result.exit_code == 0, result.output
    assert "from ids colour; numbers price" in squeezed(result)


def test_with_only_no_others_are_used(tmp_path: Path) -> None:
    result = run(tmp_path, sales(), "--id", "colour", "--only")
    assert result.exit_code == 0, result.output
    assert "from ids colour" in squeezed(result)
    assert "not used: price" in squeezed(result)


def test_numbers_are_regressed(tmp_path: Path) -> None:
    result = run(tmp_path, sales(sold=[i % 7 for i in range(ROWS)]), "--number", "price", "--category", "colour")
    assert result.exit_code == 0, result.output
    assert "regress sold by shop" in squeezed(result)
    assert "1-SMAPE" in result.output


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_a_saved_configuration_runs_the_table_again_exactly(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Results, "pictures", lambda self: [])
    frame = sales() if task == "classify" else sales(sold=[i % 7 for i in range(ROWS)])
    first = run(tmp_path, frame, "--out", str(tmp_path / "first"), "--methods", "alphaedge,noagg", "--seeds", "2")
    assert first.exit_code == 0, first.output
    settings = load(tmp_path / "first" / "config.toml")
    assert settings.table is not None
    assert (settings.table.task, settings.table.categories, settings.table.numbers) == (task, ("colour",), ("price",))
    again = CliRunner().invoke(
        app,
        [
            "simulate",
            "--config",
            str(tmp_path / "first" / "config.toml"),
            "--jobs",
            "1",
            "--out",
            str(tmp_path / "again"),
        ],
    )
    assert again.exit_code == 0, again.output
    one, two = (pl.read_parquet(tmp_path / name / "scores.parquet") for name in ("first", "again"))
    assert one.equals(two)
    assert len(one) > 0
    assert (tmp_path / "again" / "config.toml").read_text() == (tmp_path / "first" / "config.toml").read_text()


def error_line(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    (line,) = [line for line in result.output.splitlines() if line.startswith("error")]
    return line


def mistake(result: Result) -> str:
    line = error_line(result)
    assert "found" in line
    assert "allowed" in line
    return line


DAYS = sales()["day"].to_list()
MISTAKES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "missing column": ({}, ["--number", "weight"], ["column", "'weight'", "day, shop, colour, price, sold"]),
    "unparsable time": ({"day": [*DAYS[:-1], "soon"]}, [], ["time day", "'soon'", "a date and time"]),
    "constant label": ({"sold": [1] * ROWS}, [], ["label sold", "1 in every row", "two different values"]),
    "too many labels": (
        {"sold": [i % 3 for i in range(ROWS)]},
        ["--task", "classify"],
        ["label sold", "3 different values", "--task regress"],
    ),
    "text for a number": ({}, ["--number", "colour"], ["number colour", "'red'", "a number"]),
    "infinite number": ({"price": [*range(ROWS - 1), float("inf")]}, [], ["number price", "inf", "finite"]),
    "more edges than rows allow": (
        {"shop": list(range(ROWS))},
        [],
        ["edge shop", "120 edges in 120 rows", "few values"],
    ),
    "missing time": ({"day": [None, *DAYS[1:]]}, [], ["column day", "1 rows without", "every row"]),
    "missing edge": ({"shop": [None, *["west"] * (ROWS - 1)]}, [], ["column shop", "1 rows without", "every row"]),
    "column twice": ({}, ["--id", "colour", "--category", "colour"], ["columns", "'colour'", "each column once"]),
    "no edge with enough rows": ({}, ["--batch-size", "5000"], ["edge east", "at least one batch of 5000"]),
}


@pytest.mark.parametrize(("changes", "args", "words"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_ends_with_code_2_and_one_line_that_names_the_field_and_what_is_allowed(
    changes: dict[str, Any], args: list[str], words: list[str], tmp_path: Path
) -> None:
    line = mistake(run(tmp_path, sales(**changes), *args))
    for word in words:
        assert word in line


def test_an_unknown_task_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    line = mistake(run(tmp_path, sales(), "--task", "rank"))
    for words in ("task", "'rank'", "classify", "regress"):
        assert words in line


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    line = mistake(simulate("--table", str(tmp_path / "none.csv"), *NAMED))
    assert str(tmp_path / "none.csv") in line
    assert "CSV or Parquet" in line


@pytest.mark.parametrize("left", ["time", "edge", "label"])
def test_time_edge_and_label_are_guessed_and_the_guess_is_printed(left: str, tmp_path: Path) -> None:
    at = NAMED.index(f"--{left}")
    result = run(tmp_path, sales(), named=NAMED[:at] + NAMED[at + 2 :])
    assert result.exit_code == 0, result.output
    assert "classify sold by shop in the order of day" in squeezed(result)


def test_all_columns_that_cannot_be_guessed_are_named_at_once(tmp_path: Path) -> None:
    frame = sales(noon=DAYS, town=sales()["shop"]).rename({"day": "dawn", "sold": "b"})
    frame = frame.with_columns(a=pl.col("b"))
    line = mistake(run(tmp_path, frame, named=[]))
    for words in (
        "time: dawn or noon",
        "label: colour or b or a",
        "edge: shop or town",
        "--time and --label and --edge",
    ):
        assert words in line


def test_all_missing_columns_are_named_at_once_with_near_ones(tmp_path: Path) -> None:
    line = mistake(run(tmp_path, sales(), "--number", "Price", "--id", "weight", named=["--label", "solt"]))
    for words in (
        "'solt, weight, Price'",
        "day, shop, colour, price, sold",
        "solt may mean sold",
        "Price may mean price",
    ):
        assert words in line


@pytest.mark.parametrize(
    ("args", "options"),
    [(NAMED, "--time, --edge, --label"), (["--id", "item"], "--id"), (["--data", "table"], "--data table")],
)
def test_columns_without_a_table_are_refused(args: list[str], options: str) -> None:
    assert error_line(simulate(*args)) == f"error {options}: name the file of the table with --table"


def test_a_table_and_another_data_set_exclude_each_other(tmp_path: Path) -> None:
    line = error_line(run(tmp_path, sales(), "--data", "movielens"))
    assert line == "error --table: takes the place of --data movielens; give one of the two"


def test_the_data_set_table_may_be_named_beside_its_file(tmp_path: Path) -> None:
    assert run(tmp_path, sales(), "--data", "table").exit_code == 0
