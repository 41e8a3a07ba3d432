"""Anybody's table: a CSV or Parquet file with a time, a place and an outcome.

Columns that nobody named are guessed from their types and from how many different values they have; only columns that
are used are read. Rows are events: the place is the edge, the outcome the label.
"""

from pathlib import Path
from typing import Final, Literal

import msgspec
import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.frame import codes, field, streams
from alphaedge.data.stream import Dataset
from alphaedge.errors import InvalidValue, check_choice

LOOK: Final = 100_000  # rows that a guess looks at
FEW: Final = 64  # values that a category has at most; above that it is an id
CLOCKS: Final = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")  # that may follow a date
LABEL_SCALE_ROWS: Final = 1_000  # first labels that tell the size of labels


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file, and what its columns are.

    file: CSV or Parquet. time, edge, label: columns; a time is a date, a date with time of day, or a number.
    ids, categories, numbers: columns to learn from; if none is named, all others are guessed.
    task: ``classify`` a label of two values (the larger one is the positive), ``regress`` a number, or ``auto``.
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
            # A place may also be a feature; nothing else may be two things at once.
            times = named.count(column) - (column == self.edge and column in named[3:])
            if times > 1:
                raise InvalidValue("table: columns", column, "each column once")

    def used(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys([self.time, self.edge, self.label, *self.ids, *self.categories, *self.numbers]))

    def described(self) -> str:
        """What the columns are taken for, in one line."""
        kinds = {"ids": self.ids, "categories": self.categories, "numbers": self.numbers}
        parts = [f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names]
        return f"{self.task} {self.label} by {self.edge} in the order of {self.time}, from {'; '.join(parts)}"


def guess(table: Table) -> Table:
    """The table with every column and the task said; what was named stays as named."""
    scan = _scan(table.file, table.time)
    schema = scan.collect_schema()
    for column in table.used():
        if column not in schema:
            raise InvalidValue("table: column", column, "one of " + ", ".join(schema))
    if not (table.ids or table.categories or table.numbers):
        table = _guess_kinds(table, _collect(scan.head(LOOK), table.file), schema)
    if table.task == "auto":
        labels = _collect(scan.select(pl.col(table.label).drop_nulls().unique()), table.file)
        table = msgspec.structs.replace(table, task="classify" if len(labels) == 2 else "regress")
    return table


def load(table: Table) -> Dataset:
    """The events of a table whose columns have been guessed or named."""
    table = guess(table)
    frame = _collect(
        _scan(table.file, table.time).select(table.used()).filter(pl.col(table.label).is_not_null()), table.file
    )
    if frame.is_empty():
        raise InvalidValue(f"table: {table.file}", "no row with a label", "at least one")
    for column in (table.time, table.edge):
        missing = frame[column].null_count()
        if missing:
            raise InvalidValue(f"table: column {column}", f"{missing} rows without a value", "a value in every row")
    names = [str(n) for n in frame[table.edge].unique().sort()]
    if 2 * len(names) > len(frame):
        found = f"{len(names)} edges in {len(frame)} rows"
        raise InvalidValue(f"table: edge {table.edge}", found, "a column with few values, each in many rows")
    keys = {f"{kind} {c}": pl.col(c) for kind in ("id", "category") for c in _columns(table, kind)}
    numbers = {f"number {c}": _number(frame[c], c) for c in table.numbers}
    # In one go: the user's own columns may have any of these names.
    frame = frame.select(
        edge=codes(pl.col(table.edge)),
        time=_times(frame[table.time], table.time),
        label=_labels(frame[table.label], table),
        **{k: codes(e) for k, e in keys.items()},
        **numbers,
    )
    # What was not measured is what was measured last there; nothing looks ahead.
    frame = frame.sort("edge", "time", maintain_order=True).with_columns(
        pl.col(name).forward_fill().over("edge").fill_null(0) for name in numbers
    )
    fields = [field(frame, k, "id" if k.startswith("id ") else "category") for k in keys]
    if numbers:
        fields.append(Field("numbers", "number", len(numbers)))
    data = streams(frame, len(names), fields, {"numbers": list(numbers)})
    size = float(frame.sort("time").head(LABEL_SCALE_ROWS).select(pl.col("label").abs().mean()).item())
    label_scale = size if table.task == "regress" and size > 0 else 1.0
    task: Literal["classify", "regress"] = "classify" if table.task == "classify" else "regress"
    return Dataset(Path(table.file).stem, task, tuple(fields), data, names=tuple(names), label_scale=label_scale)


def columns(file: str) -> list[str]:
    """The columns that a file has."""
    return list(_scan(file).collect_schema())


def unused(table: Table) -> list[str]:
    """The columns that a table has and that are not read."""
    return [c for c in _scan(table.file, table.time).collect_schema() if c not in table.used()]


def _scan(file: str, time: str | None = None) -> pl.LazyFrame:
    path = Path(file)
    if not path.is_file():
        raise InvalidValue("table: file", file, "a CSV or Parquet file that is there")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            scan = pl.scan_parquet(path)
        else:
            # Polars reads 3/4/2024 as a day in April without asking: times are for ``_times``.
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


def _columns(table: Table, kind: str) -> tuple[str, ...]:
    return table.ids if kind == "id" else table.categories


def _guess_kinds(table: Table, look: pl.DataFrame, schema: pl.Schema) -> Table:
    found: dict[str, list[str]] = {"ids": [], "categories": [], "numbers": []}
    for column, kind in schema.items():
        if column in (table.time, table.edge, table.label) or kind.is_temporal() or kind.is_nested():
            continue
        values = look[column].n_unique()
        whole = kind.is_integer() or kind in (pl.String, pl.Boolean, pl.Categorical, pl.Enum)
        if kind.is_float() or kind.is_decimal():
            found["numbers"].append(column)
        elif whole and 1 < values <= FEW:
            found["categories"].append(column)
        elif whole and FEW < values <= 0.5 * len(look):  # a value for nearly every row says nothing about the next
            found["ids"].append(column)
    if not any(found.values()):
        others = ", ".join(c for c in schema if c not in (table.time, table.edge, table.label)) or "none"
        raise InvalidValue("table: columns to learn from", others, "ids, categories or numbers: name some")
    return msgspec.structs.replace(table, **{k: tuple(v) for k, v in found.items()})


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
    """Seconds since 1970 of dates as text; those that can't be read are null."""
    values = values.str.strip_chars()
    found = values.str.extract_groups(r"^(\d{1,2})([/-])(\d{1,2})[/-]\d{4}").struct
    first, second = (found.field(part).cast(pl.Int64) for part in ("1", "3"))
    try:
        if first.null_count() == len(values):
            return values.str.to_datetime(strict=False, time_zone="UTC").dt.epoch("us") / 1e6
        if (first > 12).any() == (second > 12).any():
            allowed = "dates that tell their days from their months: write 2024-12-31"
            raise InvalidValue(f"table: time {name}", values[0], allowed)
        between = found.field("2").drop_nulls()[0]
        date = between.join(["%d", "%m", "%Y"] if (first > 12).any() else ["%m", "%d", "%Y"])
        read = [values.str.to_datetime(date + clock, strict=False) for clock in CLOCKS]
        return min(read, key=lambda parsed: parsed.null_count()).dt.epoch("us") / 1e6
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
        raise InvalidValue(where, values.filter(wrong)[0], "finite numbers (or nothing, where it was not measured)")
    return values
