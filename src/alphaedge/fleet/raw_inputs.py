"""The fields of a model from a data frame or a mapping, as raw values by the names of columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphaedge.core.fields import KEYED
from alphaedge.data.table.build import raw_values
from alphaedge.data.table.reading import open_frame, refused
from alphaedge.edge.config import FieldConfig
from alphaedge.errors import InvalidValue


def read_inputs(given: object, fields: Sequence[FieldConfig]) -> dict[str, NDArray[Any]]:
    """The columns of the fields, an array each, as ``Features.encode`` takes them; other columns are ignored.

    given: a data frame of polars, pandas or pyarrow, or a mapping from names to sequences.
    """
    names = [field.name for field in fields]
    if isinstance(given, Mapping):
        _check_there(names, [str(name) for name in given])
        with refused("inputs"):
            columns = {name: pl.Series(name, given[name], strict=False) for name in names}
    else:
        source = open_frame(given, "inputs")
        _check_there(names, source.columns)
        frame = source.collect(source.scan.select(names))
        columns = {name: frame[name] for name in names}
    return {field.name: _array(field, columns[field.name]) for field in fields}


def _check_there(names: Sequence[str], found: Sequence[str]) -> None:
    if missing := [name for name in names if name not in found]:
        raise InvalidValue("columns", list(found), f"also {', '.join(missing)}")


def _array(field: FieldConfig, column: pl.Series) -> NDArray[Any]:
    if field.kind in KEYED:
        plain = column.to_frame().select(raw_values(field.name, {field.name: column.dtype}, field.kind)).to_series()
        return np.array([*plain.to_list(), None], dtype=object)[:-1]  # one more, so that it is never seen as a matrix
    dtype = column.dtype
    if field.kind == "code":
        return column.to_numpy()
    inner = dtype.inner if isinstance(dtype, pl.List | pl.Array) else dtype
    if not (inner.is_numeric() or inner == pl.Boolean or inner == pl.Null):
        raise InvalidValue(f"inputs.{field.name}", str(dtype), "numbers")
    if isinstance(dtype, pl.List | pl.Array):
        lists = column.cast(pl.List(pl.Float64))
        sizes = lists.list.len().fill_null(0)
        if len(wrong := sizes.filter(sizes != field.size)):
            raise InvalidValue(f"inputs.{field.name}", f"{wrong[0]} numbers", f"{field.size} in every row")
        return _numbers(lists.explode()).reshape(len(column), field.size)
    return _numbers(column)


def _numbers(column: pl.Series) -> NDArray[np.float64]:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
