"""A user's own table: a CSV or Parquet file whose rows are events, with columns for the time, the edge and the label.

The kinds of the other columns are named, or guessed from their types and from how many different values they have. Only
the columns that are used are read.
"""

import math
from pathlib import Path
from typing import Final, Literal

import msgspec
import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import EDGE, LABEL, TIME, codes, number_values, split_by_edge
from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue, check_choice

GUESS_ROWS: Final = 100_000  # read for a guess
MAX_CATEGORIES: Final = 64  # a guess takes a column with more different values for an id
TIME_FORMATS: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")  # after a date
LABEL_SCALE_ROWS: Final = 1_000  # the first labels, which give the scale of all


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file and the meaning of its columns.

    file: CSV or Parquet. time, edge, label: columns; a time is a date, a date with time of day, or a number.
    ids, categories, numbers: columns to learn from; if none is named, the kinds of all others are guessed.
    task: ``classify`` a label of two values (the larger one is positive), ``regress`` a number, or ``auto``.
    """

    file: str
    time: str
    edge: str
    label: str
    ids: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    task: Literal["auto", "classify", "regress"] = "auto"

    def __post_init__(self) -> None:
        check_choice("table: task", self.task, ["auto", "classify", "regress"])
        named = [self.time, self.edge, self.label, *self.ids, *self.categories, *self.numbers]
        for column in named:
            # The edge may also be an input; no other column may have two meanings.
            times = named.count(column) - (column == self.edge and column in named[3:])
            if times > 1:
                raise InvalidValue("table: columns", column, "each column once")

    def used_columns(self) -> list[str]:
        """Return the columns to read."""
        return list(dict.fromkeys([self.time, self.edge, self.label, *self.ids, *self.categories, *self.numbers]))

    def describe(self) -> str:
        """Return the meaning of the columns in one line."""
        kinds = {"ids": self.ids, "categories": self.categories, "numbers": self.numbers}
        parts = [f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names]
        return f"{self.task} {self.label} by {self.edge} in the order of {self.time}, from {'; '.join(parts)}"


def guess_columns(table: Table) -> Table:
    """Return the table with the kinds of its columns and its task filled in; what is named stays as it is."""
    scan = _scan(table.file, table.time)
    schema = scan.collect_schema()
    for column in table.used_columns():
        if column not in schema:
            raise InvalidValue("table: column", column, "one of " + ", ".join(schema))
    if not (table.ids or table.categories or table.numbers):
        table = _guess_kinds(table, _collect(scan.head(GUESS_ROWS), table.file), schema)
    if table.task == "auto":
        labels = _collect(scan.select(pl.col(table.label).drop_nulls().unique()), table.file)
        table = msgspec.structs.replace(table, task="classify" if len(labels) == 2 else "regress")
    return table


def load(table: Table) -> Dataset:
    """Load the events of a table; guess what is not named."""
    table = guess_columns(table)
    frame = _collect(
        _scan(table.file, table.time).select(table.used_columns()).filter(pl.col(table.label).is_not_null()), table.file
    )
    if frame.is_empty():
        raise InvalidValue(f"table: {table.file}", "no row with a label", "at least one")
    for column in (table.time, table.edge):
        missing = frame[column].null_count()
        if missing:
            raise InvalidValue(f"table: column {column}", f"{missing} rows without a value", "a value in every row")
    names = [str(n) for n in frame[table.edge].unique().sort()]
    if 2 * len(names) > len(frame):
        counts = f"{len(names)} edges in {len(frame)} rows"
        raise InvalidValue(f"table: edge {table.edge}", counts, "a column with few values, each in many rows")
    keyed = {name: number_values(frame[name]) for name in (*table.ids, *table.categories)}
    numbers = {name: _number(frame[name], name) for name in table.numbers}
    # The user's columns may have any name, so what is not a field gets names that are theirs for certain.
    coded = pl.DataFrame(
        {
            EDGE: frame.select(codes(pl.col(table.edge))).to_series(),
            TIME: _times(frame[table.time], table.time),
            LABEL: _labels(frame[table.label], table),
        }
        | {f"={name}": found.numbers for name, found in keyed.items()}
        | {f"={name}": values.fill_null(math.nan) for name, values in numbers.items()}
    )
    fields = [Field(name, "id", len(keyed[name].values)) for name in table.ids]
    fields += [Field(name, "category", len(keyed[name].values)) for name in table.categories]
    fields += [Field(name, "number", missing=values.null_count() > 0) for name, values in numbers.items()]
    size = float(coded.sort(TIME).head(LABEL_SCALE_ROWS).select(pl.col(LABEL).abs().mean()).item())
    return Dataset(
        Path(table.file).stem,
        "classify" if table.task == "classify" else "regress",
        tuple(fields),
        split_by_edge(coded, len(names), fields, {field.name: [f"={field.name}"] for field in fields}),
        names=tuple(names),
        label_scale=size if table.task == "regress" and size > 0 else 1.0,
        values={name: found.values for name, found in keyed.items()},
    )


def read_columns(file: str) -> list[str]:
    """Return the columns of a file."""
    return list(_scan(file).collect_schema())


def unused_columns(table: Table) -> list[str]:
    """Return the columns of a table that are not read."""
    return [c for c in _scan(table.file, table.time).collect_schema() if c not in table.used_columns()]


def _scan(file: str, time: str | None = None) -> pl.LazyFrame:
    path = Path(file)
    if not path.is_file():
        raise InvalidValue("table: file", file, "a CSV or Parquet file that is there")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            scan = pl.scan_parquet(path)
        else:
            # Polars takes 3/4/2024 for a day in April; ``_times`` refuses what is ambiguous.
            own = {time: pl.String} if time is not None else {}
            scan = pl.scan_csv(path, try_parse_dates=True, infer_schema_length=None, schema_overrides=own)
        scan.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidValue("table: file", file, f"a readable CSV or Parquet file ({error})") from error
    return scan


def _collect(scan: pl.LazyFrame, file: str) -> pl.DataFrame:
    try:
        return scan.collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidValue("table: file", file, f"a readable CSV or Parquet file ({error})") from error


def _guess_kinds(table: Table, head: pl.DataFrame, schema: pl.Schema) -> Table:
    kinds: dict[str, list[str]] = {"ids": [], "categories": [], "numbers": []}
    for column, dtype in schema.items():
        if column in (table.time, table.edge, table.label) or dtype.is_temporal() or dtype.is_nested():
            continue
        values = head[column].n_unique()
        discrete = dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Categorical, pl.Enum)
        if dtype.is_float() or dtype.is_decimal():
            kinds["numbers"].append(column)
        elif discrete and 1 < values <= MAX_CATEGORIES:
            kinds["categories"].append(column)
        elif discrete and MAX_CATEGORIES < values <= 0.5 * len(head):  # ids that hardly recur teach nothing
            kinds["ids"].append(column)
    if not any(kinds.values()):
        others = ", ".join(c for c in schema if c not in (table.time, table.edge, table.label)) or "none"
        raise InvalidValue("table: columns to learn from", others, "ids, categories or numbers: name some")
    return msgspec.structs.replace(table, **{kind: tuple(columns) for kind, columns in kinds.items()})


def _times(values: pl.Series, name: str) -> pl.Series:
    if values.dtype.is_numeric():
        times = values.cast(pl.Float64)
    elif values.dtype == pl.String:
        times = values.cast(pl.Float64, strict=False)
        if times.null_count():
            times = min(times, _dates(values, name), key=lambda parsed: parsed.null_count())
    elif values.dtype == pl.Date or values.dtype == pl.Datetime:
        times = values.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
    else:
        times = pl.Series([None] * len(values), dtype=pl.Float64)
    wrong = times.is_null() | times.is_nan() | times.is_infinite()
    if wrong.any():
        raise InvalidValue(f"table: time {name}", values.filter(wrong)[0], "a number, a date or a date and time")
    return times


def _dates(values: pl.Series, name: str) -> pl.Series:
    """Parse dates as text to seconds since 1970; null where that fails."""
    values = values.str.strip_chars()
    groups = values.str.extract_groups(r"^(\d{1,2})([/-])(\d{1,2})[/-]\d{4}").struct
    first, second = (groups.field(group).cast(pl.Int64) for group in ("1", "3"))
    try:
        if first.null_count() == len(values):
            return values.str.to_datetime(strict=False, time_zone="UTC").dt.epoch("us") / 1e6
        if (first > 12).any() == (second > 12).any():
            allowed = "dates that tell days from months: write 2024-12-31"
            raise InvalidValue(f"table: time {name}", values[0], allowed)
        separator = groups.field("2").drop_nulls()[0]
        date = separator.join(["%d", "%m", "%Y"] if (first > 12).any() else ["%m", "%d", "%Y"])
        attempts = [values.str.to_datetime(date + time, strict=False) for time in TIME_FORMATS]
        return min(attempts, key=lambda parsed: parsed.null_count()).dt.epoch("us") / 1e6
    except pl.exceptions.PolarsError:  # no value looks like a date
        return pl.Series([None] * len(values), dtype=pl.Float64)


def _labels(values: pl.Series, table: Table) -> pl.Series:
    where = f"table: label {table.label}"
    distinct = values.unique().sort()
    if len(distinct) < 2:
        raise InvalidValue(where, distinct.to_list(), "at least two different values")
    if table.task == "classify":
        if len(distinct) > 2:
            raise InvalidValue(where, f"{len(distinct)} different values", "two, to classify; else --task regress")
        positive: pl.Series = values == distinct[1]
        return positive.cast(pl.Float32)
    return _finite(_number(values, table.label), where)


def _number(values: pl.Series, name: str) -> pl.Series:
    if values.dtype.is_nested() or values.dtype.is_temporal():
        raise InvalidValue(f"table: number {name}", str(values.dtype), "numbers")
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        numbers = values.cast(pl.Float32, strict=False)
        wrong = numbers.is_null() & values.is_not_null()
        if wrong.any():
            raise InvalidValue(f"table: number {name}", values.filter(wrong)[0], "a number")
    return _finite(values.cast(pl.Float32), f"table: number {name}")


def _finite(values: pl.Series, where: str) -> pl.Series:
    wrong = (values.is_nan() | values.is_infinite()).fill_null(False)
    if wrong.any():
        raise InvalidValue(where, values.filter(wrong)[0], "finite numbers (or nothing, where there is none)")
    return values
