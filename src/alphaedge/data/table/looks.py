"""What the first values of a column look like, whether they come with a type or as text."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, final

import polars as pl

from alphaedge.data.table import numbers, times

Kind = Literal["empty", "flag", "whole", "number", "time", "text", "vector", "other"]
DISCRETE: Final = ("flag", "whole", "text")  # kinds that ids and categories have
NUMERIC: Final = ("flag", "whole", "number")
_MOSTLY: Final = 0.9


@final
@dataclass(frozen=True)
class Look:
    """What a column looks like.

    distinct: different values; spelled: the same, if upper and lower case are one. form: how numbers are written, if as
    text. stray: a value that is no number, where nearly all others are numbers with decimals.
    """

    kind: Kind
    distinct: int
    form: numbers.Format | None = None
    stray: str | None = None
    spelled: int | None = None

    @property
    def classes(self) -> int:
        """How many values a label would have."""
        return self.distinct if self.spelled is None else self.spelled


def look_at(head: pl.DataFrame) -> Mapping[str, Look]:
    """Say what each column looks like, from the first rows of a table."""
    text = {name: _values(head[name]) for name in head.columns if head[name].dtype == pl.String}
    found = {n: _look_at_text(text[n]) if n in text else _look_at(head[n]) for n in head.columns}
    if numbers.uses_decimal_commas(look.form for look in found.values()):
        for name, values in text.items():
            form = found[name].form
            if form == "ambiguous" or (form == "plain" and numbers.could_be_thousands(values)):
                found[name] = replace(found[name], form="comma")
    return found


def _values(column: pl.Series) -> pl.Series:
    """The different values, without those that are missing."""
    distinct = column.to_frame("v").filter(~numbers.is_missing(pl.col("v")))
    return distinct.select(pl.col("v").str.strip_chars().unique(maintain_order=True))["v"]


def _look_at_text(values: pl.Series) -> Look:
    if values.is_empty():
        return Look("empty", 0)
    if values.str.to_lowercase().is_in(["true", "false"]).all():
        return Look("flag", len(values))
    if values.str.contains(r"^-?(0|[1-9]\d*)$").all():
        return Look("whole", len(values), "plain")
    if values.str.contains(r"^0\d+$").any():  # 007 is a name
        return Look("text", len(values))
    if form := numbers.find_format(values):
        return Look("number", len(values), form)
    if times.looks_like_times(values):
        return Look("time", len(values))
    decimal = values.str.contains(r"^[+-]?\d+[.,]\d+$")
    if int(decimal.sum()) > _MOSTLY * len(values):
        stray = values.filter(values.cast(pl.Float64, strict=False).is_null() & ~decimal)
        return Look("text", len(values), stray=stray[0] if len(stray) else values[0])
    return Look("text", len(values), spelled=values.str.to_lowercase().n_unique())


def _look_at(column: pl.Series) -> Look:
    dtype, values = column.dtype, column.drop_nulls()
    if dtype.is_float():
        values = values.drop_nans()
    if isinstance(dtype, pl.Array | pl.List):
        numeric = dtype.inner is not None and pl.Series([], dtype=dtype.inner).dtype.is_numeric()
        return Look("vector" if numeric and len(values) else "other", len(values))
    if values.is_empty():
        return Look("empty", 0)
    if dtype.is_nested() or dtype in (pl.Time, pl.Duration, pl.Object):
        return Look("other", len(values))
    return Look(_kind(dtype), values.n_unique())


def _kind(dtype: pl.DataType) -> Kind:
    if dtype == pl.Boolean:
        return "flag"
    if dtype.is_integer():
        return "whole"
    if dtype.is_numeric():
        return "number"
    return "time" if dtype.is_temporal() else "text"
