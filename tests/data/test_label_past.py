"""Which column is the last value of the label, and whether the label changes by factors."""

import numpy as np
import polars as pl

from alphaedge.data.label_past import changes_by_factors, find_last


def series(*, factor: float = 1.0, level: float = 0.0, rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    walk = level + np.cumsum(rng.normal(size=rows + 2))
    return pl.DataFrame(
        {
            "y": walk[2:] * factor,
            "ago_1": walk[1:-1] * factor,
            "ago_2": walk[:-2] * factor,
            "noise": rng.normal(size=rows),
            "edge": ["a", "b"] * (rows // 2),
        }
    )


def test_the_nearest_past_value_is_the_last() -> None:
    for rows in (series(), series(factor=-1000), series(level=1e6)):
        assert find_last(rows, "y", "edge", ["noise", "ago_2", "ago_1"]) == "ago_1"


def test_a_column_in_another_unit_is_no_last_value() -> None:
    rows = series().with_columns(pl.col("ago_1") * 100)
    assert find_last(rows, "y", "edge", ["noise", "ago_1"]) is None
    assert find_last(rows, "y", "edge", []) is None


def test_levels_of_edges_make_no_last_value() -> None:
    """A column that tells the edges apart is no better than the mean of the edge, which a model has anyway."""
    rng = np.random.default_rng(0)
    level = np.repeat([10.0, 1000.0], 100)
    rows = pl.DataFrame({"y": level + rng.normal(size=200), "size": level, "edge": np.repeat(["a", "b"], 100)})
    assert find_last(rows, "y", "edge", ["size"]) is None


def test_a_column_that_is_mostly_missing_is_no_last_value() -> None:
    rows = series().with_columns(pl.when(pl.int_range(pl.len()) < 50).then("ago_1").alias("ago_1"))
    assert find_last(rows, "y", "edge", ["ago_1"]) is None


def test_a_label_changes_by_factors_if_changes_grow_with_it_and_nothing_is_negative() -> None:
    rng = np.random.default_rng(0)
    before = np.exp(rng.normal(3, 1, 500))
    rows = pl.DataFrame({"ago": before, "y": before * np.exp(rng.normal(0, 0.2, 500))})
    assert changes_by_factors(rows, "y", "ago")
    assert not changes_by_factors(rows.with_columns(pl.col("y") - 20), "y", "ago")
    assert not changes_by_factors(series(level=1000), "y", "ago_1")
