"""Columns of numbers: how each is parsed, and what can't be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import polars as pl

from alphaedge.data.table import numbers
from alphaedge.data.table.looks import Look
from alphaedge.data.table.reading import Source
from alphaedge.errors import InvalidValue


@final
@dataclass(frozen=True)
class NumberColumn:
    """A column and the numbers that are parsed from it: one, or several from a column of vectors; null if missing."""

    name: str
    parts: tuple[pl.Expr, ...]

    def aliases(self) -> list[str]:
        """The columns that the numbers get; no column of the user begins like that by chance."""
        return [f"#{i} {self.name}" for i in range(len(self.parts))]


def plan_numbers(names: Sequence[str], source: Source, looks: Mapping[str, Look]) -> list[NumberColumn]:
    """Say how to parse columns of numbers."""
    return [NumberColumn(name, _parse(name, source, looks[name])) for name in names]


def check_parsed(source: Source, parsed: Mapping[str, tuple[str, pl.Expr]]) -> None:
    """Refuse values that are there but could not be parsed. parsed: by column, what it is and how it is parsed."""
    schema = source.head.schema
    first = {
        column: pl.col(column).filter(value.is_null() & ~_is_missing(column, schema[column])).first()
        for column, (_, value) in parsed.items()
    }
    for column, found in source.collect(source.scan.select(**first)).row(0, named=True).items():
        if found is not None:
            raise InvalidValue(f"table: {parsed[column][0]} {column}", found, "a number")


def _is_missing(column: str, dtype: pl.DataType) -> pl.Expr:
    values = pl.col(column)
    if dtype == pl.String:
        return numbers.is_missing(values)
    return values.is_null() | values.is_nan() if dtype.is_float() else values.is_null()


def _parse(name: str, source: Source, look: Look) -> tuple[pl.Expr, ...]:
    where, values, dtype = f"table: number {name}", pl.col(name), source.head.schema[name]
    if look.form == "ambiguous":
        text = source.head.filter(values.str.contains(",", literal=True))[name][0]
        raise InvalidValue(where, text, "numbers that tell decimals from thousands: write 1234 or 1.234")
    if look.kind == "empty":
        raise InvalidValue(where, "no value in any of the first rows", "a column with numbers; leave this one out")
    if dtype == pl.String:
        return (_single(numbers.parse(values, look.form or "plain")),)
    if dtype.is_numeric() or dtype == pl.Boolean:
        return (_single(values.cast(pl.Float64)),)
    if look.kind == "vector":
        return _vector(source.head[name], name)
    if dtype.is_nested() or dtype.is_temporal():
        raise InvalidValue(where, str(dtype), "numbers")
    return (_single(values.cast(pl.String).cast(pl.Float64, strict=False)),)


def _single(values: pl.Expr) -> pl.Expr:
    return values.fill_nan(None).cast(pl.Float32)


def _vector(head: pl.Series, name: str) -> tuple[pl.Expr, ...]:
    if isinstance(head.dtype, pl.Array):
        return tuple(_single(pl.col(name).arr.get(i).cast(pl.Float64)) for i in range(head.dtype.size))
    sizes = head.list.len().drop_nulls().unique().sort()
    if len(sizes) > 1 or sizes[0] == 0:
        found = f"lists of {sizes[0]} to {sizes[-1]} numbers"
        raise InvalidValue(f"table: number {name}", found, "as many numbers in every row, at least one")
    array = pl.col(name).list.to_array(int(sizes[0]))
    return tuple(_single(array.arr.get(i).cast(pl.Float64)) for i in range(int(sizes[0])))
