"""From the columns of a table to a data set: parse, number the values of ids and edges, split by edge."""

import math
import time
from collections.abc import Mapping
from typing import Final

import polars as pl

from alphaedge.core.fields import Field
from alphaedge.data.event_frame import EDGE, LABEL, TIME, NumberedValues, number_values, split_by_edge
from alphaedge.data.label_past import changes_by_factors
from alphaedge.data.stream import Dataset, Task
from alphaedge.data.table import times
from alphaedge.data.table.columns import NO_LAST, Table
from alphaedge.data.table.labels import check_finite, encode_labels, parse_label
from alphaedge.data.table.looks import Look
from alphaedge.data.table.number_columns import NumberColumn, check_parsed, plan_numbers
from alphaedge.data.table.reading import Source
from alphaedge.errors import InvalidValue

_ROW: Final = "#row"
LABEL_SCALE_ROWS: Final = 1_000  # the first labels, which give the scale of all
MANY_EDGES: Final = 1_000
_DAY: Final = 86_400.0


def build(table: Table, source: Source, looks: Mapping[str, Look], name: str) -> Dataset:
    """Make a data set from a table whose columns are all named."""
    schema = source.head.schema
    form = times.find_format(source.head[table.time], source.scan, table.time)
    when = form.parse(pl.col(table.time), schema[table.time])
    label = parse_label(pl.col(table.label), schema[table.label], looks[table.label])
    columns = plan_numbers(table.numbers, source, looks)
    # The user's columns may have any name, so all get names here that are theirs for certain.
    plan = [when.alias(TIME), label.alias(LABEL), raw_values(table.edge, schema, "edge").alias(EDGE)]
    plan += [raw_values(c, schema, "id").alias(f"={c}") for c in (*table.ids, *table.categories)]
    plan += [part.alias(alias) for c in columns for part, alias in zip(c.parts, c.aliases(), strict=True)]
    frame = source.collect(source.scan.select(plan))
    _check_values(frame, table, source, label, columns)
    frame, notes = _with_labels(frame, table)
    _check_complete(frame, table, source, when)
    edges = _number(frame[EDGE], f"edge {table.edge}")
    names, order = _in_order(edges)
    if 2 * len(names) > len(frame):
        counts = f"{len(names)} edges in {len(frame)} rows"
        raise InvalidValue(f"table: edge {table.edge}", counts, "a column with few values, each in many rows")
    notes += _notes(frame, table, form, names)
    keyed = {c: _number(frame[f"={c}"], f"id {c}") for c in (*table.ids, *table.categories)}
    task: Task = "classify" if table.task == "classify" else "regress"
    labels, classes = encode_labels(frame[LABEL], table.label, task, looks[table.label])
    coded = frame.select(
        TIME,
        order.gather(edges.numbers).alias(EDGE),
        labels.alias(LABEL),
        *(found.numbers.alias(f"={c}") for c, found in keyed.items()),
        *(check_finite(frame[a], f"table: number {c.name}").fill_null(math.nan) for c in columns for a in c.aliases()),
    )
    fields = [Field(c, "id", len(keyed[c].values)) for c in table.ids]
    fields += [Field(c, "category", len(keyed[c].values)) for c in table.categories]
    fields += [Field(c.name, "number", len(c.parts), missing=_any_missing(frame, c)) for c in columns]
    places = {c: [f"={c}"] for c in keyed} | {c.name: c.aliases() for c in columns}
    last = None if task == "classify" or table.last in ("", NO_LAST) else table.last
    return Dataset(
        name,
        task,
        tuple(fields),
        split_by_edge(coded, len(names), fields, places),
        names=names,
        label_scale=_label_scale(coded) if task == "regress" else 1.0,
        values={c: found.values for c, found in keyed.items()},
        notes=tuple(notes),
        last=last,
        columns={"time": table.time, "edge": table.edge, "label": table.label},
        classes=classes,
        relative=last is not None and changes_by_factors(source.head, table.label, last),
    )


def raw_values(column: str, schema: Mapping[str, pl.DataType], what: str) -> pl.Expr:
    """The values of ids and edges as they are, in types that have a canonical form."""
    dtype, values = schema[column], pl.col(column)
    if dtype.is_nested() or dtype in (pl.Time, pl.Duration, pl.Object):
        raise InvalidValue(f"table: {what} {column}", str(dtype), "text or whole numbers")
    if dtype.is_decimal():
        return values.cast(pl.Float64)
    plain = dtype.is_numeric() or dtype in (pl.String, pl.Boolean, pl.Binary)
    return values if plain else values.cast(pl.String)


def _number(values: pl.Series, what: str) -> NumberedValues:
    try:
        return number_values(values)
    except InvalidValue as error:
        raise InvalidValue(f"table: {what}", error.found, error.allowed) from error


def _check_values(
    frame: pl.DataFrame, table: Table, source: Source, label: pl.Expr, columns: list[NumberColumn]
) -> None:
    """Refuse labels and numbers that are there and could not be parsed."""
    parsed = {c.name: ("number", c.parts[0]) for c in columns if len(c.parts) == 1 and _any_missing(frame, c)}
    if frame[LABEL].null_count():
        parsed[table.label] = ("label", label)
    if parsed:
        check_parsed(source, parsed)


def _any_missing(frame: pl.DataFrame, column: NumberColumn) -> bool:
    return any(frame[alias].null_count() for alias in column.aliases())


def _with_labels(frame: pl.DataFrame, table: Table) -> tuple[pl.DataFrame, list[str]]:
    """Leave out the rows without a label."""
    missing = frame[LABEL].null_count()
    if missing == len(frame):
        found = "no row with a label" if missing else "no rows"
        raise InvalidValue(f"table: label {table.label}", found, "at least one row with a label")
    if not missing:
        return frame, []
    note = f"label {table.label}: {missing:,} of {len(frame):,} rows have none and are left out"
    return frame.filter(pl.col(LABEL).is_not_null()), [note]


def _check_complete(frame: pl.DataFrame, table: Table, source: Source, when: pl.Expr) -> None:
    """Refuse rows without a time or an edge."""
    if not frame[TIME].is_finite().fill_null(False).all():
        raw = pl.col(table.time)
        is_wrong = raw.is_not_null() & ~when.is_finite().fill_null(False)
        wrong = source.collect(source.scan.with_row_index(_ROW, offset=1).filter(is_wrong).select(_ROW, raw).head(1))
        if len(wrong):
            number, found = wrong.row(0)
            raise InvalidValue(f"table: time {table.time}", f"{found!r} in row {number}", times.ALLOWED)
    for column, values in ((table.time, frame[TIME]), (table.edge, frame[EDGE])):
        if missing := values.null_count():
            first = values.is_null().arg_true()[0] + 1
            found = f"{missing:,} rows without a value, the first is row {first:,}"
            raise InvalidValue(f"table: column {column}", found, "a value in every row")


def _in_order(edges: NumberedValues) -> tuple[tuple[str, ...], pl.Series]:
    """Return the names of edges, whole numbers in their order, and the place of each number among them."""
    whole = all(name.removeprefix("-").isdigit() for name in edges.values)
    names = sorted(edges.values, key=int) if whole else list(edges.values)
    places = {name: place for place, name in enumerate(names)}
    return tuple(names), pl.Series([places[name] for name in edges.values], dtype=pl.Int64)


def _label_scale(coded: pl.DataFrame) -> float:
    first = coded.select(TIME, LABEL).sort(TIME, maintain_order=True).head(LABEL_SCALE_ROWS)
    return float(first.select(pl.col(LABEL).abs().mean()).item()) or 1.0


def _notes(frame: pl.DataFrame, table: Table, form: times.TimeFormat, names: tuple[str, ...]) -> list[str]:
    """What the user should know of times and edges."""
    notes, when = [], f"time {table.time}"
    first, last = frame.select(pl.col(TIME).min().alias("first"), pl.col(TIME).max().alias("last")).row(0)
    if first == last:
        notes.append(f"{when}: the same in all rows, which stay in the order of the table; is --time the right column?")
    if form.dates and last > time.time() + _DAY:
        late = int((frame[TIME] > time.time() + _DAY).sum())
        notes.append(f"{when}: {late:,} rows are in the future, the last of {_date(last)}; correct or remove them")
    if len(form.zones) > 1:
        shown = ", ".join(form.zones[:4])
        notes.append(f"{when}: offsets from UTC differ ({shown}); events are ordered by UTC: check that they are meant")
    if len(names) == 1:
        notes.append(f"edge {table.edge}: one value only, so there is nobody to learn from; name another with --edge")
    if len(names) > MANY_EDGES:
        rows = len(frame) // len(names)
        notes.append(
            f"edge {table.edge}: {len(names):,} edges with {rows:,} rows on average; "
            "if that is too fine, name a coarser column with --edge"
        )
    return notes


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
