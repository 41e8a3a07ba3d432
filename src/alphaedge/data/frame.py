"""From a table of events to the streams of edges."""

from collections.abc import Mapping, Sequence

import polars as pl
import torch
from torch import Tensor

from alphaedge.core.fields import Field, Kind
from alphaedge.data.stream import Stream


def streams(
    frame: pl.DataFrame, edges: int, fields: Sequence[Field], columns: Mapping[str, Sequence[str]]
) -> tuple[Stream, ...]:
    """Cut a table with columns ``edge`` (0 to edges - 1), ``time`` and ``label`` into one stream an edge.

    ``columns`` names the columns of a field where they are not one column of the field's name. Events of one moment
    keep the order of the table.
    """
    ordered = frame.sort("edge", "time", maintain_order=True)
    counts = torch.bincount(torch.from_numpy(ordered["edge"].to_numpy().copy()).long(), minlength=edges).tolist()
    inputs = {f.name: tensor(ordered, f, columns.get(f.name, [f.name])) for f in fields}
    labels, times = ordered["label"].cast(pl.Float32).to_torch(), ordered["time"].cast(pl.Float64).to_torch()
    found, start = [], 0
    for count in counts:
        part = slice(start, start + count)
        found.append(Stream({name: values[part] for name, values in inputs.items()}, labels[part], times[part]))
        start += count
    return tuple(found)


def tensor(frame: pl.DataFrame, field: Field, columns: Sequence[str]) -> Tensor:
    """A field's values: int64 [N] for an id or a category, float32 [N, columns] for numbers and sets."""
    if field.kind in ("id", "category"):
        return frame[columns[0]].cast(pl.Int64).to_torch()
    return frame.select(pl.col(columns).cast(pl.Float32)).to_torch()


def field(frame: pl.DataFrame, name: str, kind: Kind) -> Field:
    """The field of a column of codes."""
    return Field(name, kind, int(frame.select(pl.col(name).max()).item()) + 1)


def codes(values: pl.Expr) -> pl.Expr:
    """Whole numbers from 0 for the values of a column, in sorted order; null is 0."""
    return values.rank("dense").cast(pl.Int64).fill_null(0) - pl.when(values.null_count() > 0).then(0).otherwise(1)
