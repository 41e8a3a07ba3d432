"""Turn a polars frame of events into fields and the streams of edges."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl
import torch
from torch import Tensor

from alphaedge.core.fields import WHOLE, Field, Kind
from alphaedge.data.stream import Stream
from alphaedge.values import canonical

EDGE, TIME, LABEL = "edge", "time", "label"  # columns of a frame of events


class NumberedValues(NamedTuple):
    """A column as numbers from 0 on, and the canonical form that each number stands for."""

    numbers: pl.Series
    values: tuple[str, ...]


def number_values(column: pl.Series) -> NumberedValues:
    """Number the values of a column in the order of their canonical forms; those that are missing are one value.

    >>> found = number_values(pl.Series([10.0, None, 10.0, 30.0]))
    >>> found.numbers.to_list(), found.values
    ([1, 0, 1, 2], ('', '10', '30'))
    """
    distinct = column.unique()
    forms = pl.Series([canonical(value) for value in distinct.to_list()], dtype=pl.String)
    values = forms.unique().sort()
    places = pl.DataFrame({"form": values}).with_row_index("number")
    known = pl.DataFrame({"value": distinct, "form": forms}).join(places, on="form", how="left")
    joined = pl.DataFrame({"value": column}).join(
        known, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return NumberedValues(joined["number"].cast(pl.Int64), tuple(values.to_list()))


def split_by_edge(
    frame: pl.DataFrame, edges: int, fields: Sequence[Field], columns: Mapping[str, Sequence[str]]
) -> tuple[Stream, ...]:
    """Split a frame with columns EDGE (0 to edges - 1), TIME and LABEL into one stream per edge.

    ``columns`` names the columns of fields that are not a single column of the field's name. Events with equal times
    keep the order of the frame.
    """
    ordered = frame.sort(EDGE, TIME, maintain_order=True)
    counts = torch.bincount(torch.from_numpy(ordered[EDGE].to_numpy().copy()).long(), minlength=edges).tolist()
    inputs = {f.name: field_tensor(ordered, f, columns.get(f.name, [f.name])) for f in fields}
    labels, times = ordered[LABEL].cast(pl.Float32).to_torch(), ordered[TIME].cast(pl.Float64).to_torch()
    streams, start = [], 0
    for count in counts:
        part = slice(start, start + count)
        streams.append(Stream({name: values[part] for name, values in inputs.items()}, labels[part], times[part]))
        start += count
    return tuple(streams)


def field_tensor(frame: pl.DataFrame, field: Field, columns: Sequence[str]) -> Tensor:
    """Return the values of a field: int64 [N] for one whole number per event, else float32 [N, columns]."""
    if field.kind in WHOLE:
        return frame[columns[0]].cast(pl.Int64).to_torch()
    return frame.select(pl.col(columns).cast(pl.Float32)).to_torch()


def code_field(frame: pl.DataFrame, name: str, kind: Kind) -> Field:
    """Return the field of a column of codes: its size is the largest code plus 1."""
    return Field(name, kind, int(frame.select(pl.col(name).max()).item()) + 1)


def codes(values: pl.Expr) -> pl.Expr:
    """Number the values of a column from 0 in sorted order. If there are nulls, they are 0 and values start at 1."""
    return values.rank("dense").cast(pl.Int64).fill_null(0) - pl.when(values.null_count() > 0).then(0).otherwise(1)


def raw_values(codes: pl.Series, values: pl.Series) -> tuple[str, ...]:
    """Return the raw value of each code as text; empty for the code of null.

    >>> raw_values(pl.Series([1, 0, 1, 2]), pl.Series([10, None, 10, 30]))
    ('', '10', '30')
    """
    pairs = pl.DataFrame({"code": codes, "value": values.cast(pl.String)}).unique("code").sort("code")
    return tuple(pairs["value"].fill_null("").to_list())


def number_edges(frame: pl.DataFrame, column: str, min_events: int = 1) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Number the places in a column as ``edge``, in sorted order, without those that have too few events.

    Returns the events of the other places, and their names.

    >>> frame, names = number_edges(pl.DataFrame({"town": ["b", "c", "a", "b", "a"]}), "town", 2)
    >>> frame["edge"].to_list(), names
    ([1, 0, 1, 0], ('a', 'b'))
    """
    kept = frame.filter(pl.len().over(column) >= min_events)
    names = tuple(sorted(str(name) for name in kept[column].unique()))
    numbers = {name: number for number, name in enumerate(names)}
    return kept.with_columns(edge=pl.col(column).replace_strict(numbers, return_dtype=pl.Int64)), names


def on_circle(values: pl.Expr, period: float, name: str) -> list[pl.Expr]:
    """Place a time within a period on a circle, so that its end is next to its start: ``name_sin`` and ``name_cos``."""
    angle = values * (2 * math.pi / period)
    return [angle.sin().alias(f"{name}_sin"), angle.cos().alias(f"{name}_cos")]
