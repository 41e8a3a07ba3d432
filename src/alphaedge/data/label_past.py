"""Does a label have its own past among the columns, such as the value an hour ago? Pure."""

from collections.abc import Sequence
from typing import Final

import polars as pl

FAR_BETTER: Final = 0.5  # of the error of the edge's mean label: what a column may be off by to count as the last value
GROWS: Final = 0.2  # correlation of changes with levels from which on a label changes by factors
MIN_ROWS: Final = 30


def find_last(rows: pl.DataFrame, label: str, edge: str, numbers: Sequence[str]) -> str | None:
    """Return the number column that, as it stands, is nearest to the label; None if it is not far nearer than the mean.

    >>> rows = pl.DataFrame({"y": [float(i) for i in range(60)], "e": ["a"] * 60}).with_columns(ago=pl.col("y") - 1)
    >>> find_last(rows, "y", "e", ["ago"])
    'ago'
    """
    y = pl.col(label).cast(pl.Float64, strict=False)
    known = [c for c in numbers if not rows.schema[c].is_nested()]
    errors = [(y - pl.col(c).cast(pl.Float64, strict=False)).abs() for c in known]
    usual = (y - y.mean().over(edge)).abs()
    found = rows.select(
        *(pl.struct(e.mean().alias("own"), usual.filter(e.is_not_null()).mean().alias("usual"), e.count().alias("n"))
          .alias(str(i)) for i, e in enumerate(errors))
    ).row(0) if known else ()  # fmt: skip
    enough = max(MIN_ROWS, len(rows) / 2)
    off = {
        column: each["own"] / each["usual"]
        for column, each in zip(known, found, strict=True)
        if each["n"] >= enough and each["usual"] and each["own"] is not None
    }
    best = min(off, key=lambda column: off[column], default=None)
    return best if best is not None and off[best] <= FAR_BETTER else None


def changes_by_factors(rows: pl.DataFrame, label: str, last: str) -> bool:
    """Whether a label is never negative, nor its last value, and changes more where it is larger."""
    y, before = (pl.col(c).cast(pl.Float64, strict=False) for c in (label, last))
    lowest, grows = rows.select(
        pl.min_horizontal(y.min(), before.min()).alias("lowest"), pl.corr((y - before).abs(), before).alias("grows")
    ).row(0)
    return lowest is not None and lowest >= 0 and grows is not None and grows > GROWS
