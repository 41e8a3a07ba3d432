"""Open a table, guess what is not named, load it, describe how it is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from alphaedge.data.stream import Dataset
from alphaedge.data.table.build import build
from alphaedge.data.table.columns import Table
from alphaedge.data.table.guess import check_columns, guess
from alphaedge.data.table.labels import name_classes, parse_label
from alphaedge.data.table.looks import Look, look_at
from alphaedge.data.table.reading import Source, open_files, open_frame
from alphaedge.errors import InvalidValue


class Description(NamedTuple):
    """How a table is read. reading: how its files are written, if not as plain CSV or Parquet. unused: columns."""

    columns: str
    reading: str
    unused: tuple[str, ...]

    def lines(self, file: str) -> list[str]:
        """Return what to tell the user."""
        unused = f"; not used: {', '.join(self.unused)}" if self.unused else ""
        return [*([f"{file}: {self.reading}"] if self.reading else []), f"{file}: {self.columns}{unused}"]


def guess_columns(table: Table) -> Table:
    """Return the table with everything filled in that was to be guessed; what is named stays as it is."""
    if table.complete:
        check_columns(table, open_files(table.file))
        return table
    source = _open(table)
    return guess(table, source, _look(source))


def count_by_edge(table: Table) -> list[int]:
    """Return how many labelled rows each edge has, in a table whose columns are all named."""
    scan = _open(table).scan.filter(pl.col(table.label).is_not_null())
    return scan.group_by(table.edge).len().collect()["len"].to_list()


def load(table: Table) -> Dataset:
    """Load the events of a table; guess what is not named."""
    return _load(table, _open(table), _name(table.file))


def from_frame(frame: object, table: Table) -> Dataset:
    """Make a data set of a data frame; ``file`` of the table is its name."""
    return _load(table, open_frame(frame, table.file), table.file)


def describe(table: Table) -> Description:
    """Say how a table is read."""
    source = open_files(table.file)
    looks = _look(source)
    table = table if table.complete else guess(table, source, looks)
    used = table.used_columns()
    unused = tuple(f"{c}{_reason(looks[c], len(source.head))}" for c in looks if c not in used)
    commas = ", ".join(c for c in table.numbers if looks[c].form == "comma")
    columns = f"{table.describe()}{_positive(table, source, looks)}"
    readings = [source.reading, f"decimal commas in {commas}" if commas else ""]
    return Description(columns, ", ".join(r for r in readings if r), unused)


def _positive(table: Table, source: Source, looks: Mapping[str, Look]) -> str:
    """Which value of the label counts as 1, where that is not plain."""
    if table.task != "classify":
        return ""
    label = parse_label(pl.col(table.label), source.head.schema[table.label], looks[table.label])
    values = source.head.select(label.alias("label").drop_nulls().unique().sort())["label"].to_list()
    if values == [0.0, 1.0] or len(values) != 2:
        return ""
    return f"; {table.label} = {name_classes(values, looks[table.label])[1]} counts as 1"


def _open(table: Table) -> Source:
    named = table.only and table.time and table.edge and table.label
    return open_files(table.file, table.used_columns() if named else None)


def _look(source: Source) -> Mapping[str, Look]:
    if source.whole and source.head.is_empty():
        raise InvalidValue(f"table: {source.name}", "no rows", "a row for each event, below the names of the columns")
    return look_at(source.head)


def _load(table: Table, source: Source, name: str) -> Dataset:
    looks = _look(source)
    if table.complete:
        check_columns(table, source)
    else:
        table = guess(table, source, looks)
    return build(table, source, looks, name)


def _name(file: str) -> str:
    """The name of a data set: that of its file, or of the folder that a pattern looks into."""
    path = Path(file)
    plain = path.name.partition(".")[0]
    return path.parent.name or "table" if "*" in plain or "?" in plain or "[" in plain else plain


def _reason(look: Look, rows: int) -> str:
    """Why a guess does not use a column; empty if it would."""
    if look.kind == "empty":
        return " (empty)"
    if look.kind in ("time", "other"):
        return f" ({look.kind if look.kind == 'time' else 'no kind of input'})"
    if look.distinct == 1:
        return " (one value)"
    return " (hardly a value recurs)" if look.kind != "number" and look.distinct > 0.5 * rows else ""
