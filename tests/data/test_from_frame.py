"""``Dataset.from_frame``: data frames of several libraries."""

from typing import Any

import polars as pl
import pytest
import torch

from alphaedge import Dataset, Field, InvalidValue, simulate

from .archives import same

ROWS = 120


def sales(**changes: Any) -> pl.DataFrame:
    columns: dict[str, Any] = {
        "day": [i // 3 for i in range(ROWS)],
        "shop": ["west", "east", "north"] * (ROWS // 3),
        "colour": ["red", None, "blue", "blue"] * (ROWS // 4),
        "price": [None if i % 9 == 0 else i / 8 for i in range(ROWS)],
        "sold": [int(i * i % 5 < 2) for i in range(ROWS)],
    }
    return pl.DataFrame(columns | changes, strict=False)


class SpeaksArrow:
    """A table of some library that polars does not know."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def test_frames_of_polars_and_of_whatever_speaks_arrow_are_the_same_data() -> None:
    made = [Dataset.from_frame(f) for f in (sales(), sales().lazy(), SpeaksArrow(sales()))]
    assert all(same_with_missing(made[0], other) for other in made)
    assert made[0].names == ("east", "north", "west")
    assert made[0].fields == (Field("colour", "category", 3), Field("price", "number", missing=True))
    assert made[0].values == {"colour": ("", "blue", "red")}


def test_frames_of_pandas_and_pyarrow_are_the_same_data() -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    columns = sales().to_dict(as_series=False)
    made = [Dataset.from_frame(f) for f in (sales(), pandas.DataFrame(columns), pyarrow.table(columns))]
    assert all(same_with_missing(made[0], other) for other in made)


def same_with_missing(one: Dataset, two: Dataset) -> bool:
    return one.fields == two.fields and all(
        torch.equal(a.labels, b.labels)
        and torch.equal(a.times, b.times)
        and all(torch.equal(a.inputs[f].nan_to_num(-1), b.inputs[f].nan_to_num(-1)) for f in a.inputs)
        for a, b in zip(one.streams, two.streams, strict=True)
    )


@pytest.mark.parametrize("dtype", [pl.Array(pl.Float64, 3), pl.List(pl.Int32)])
def test_a_column_of_arrays_is_one_field_of_numbers(dtype: Any, tmp_path: Any) -> None:
    vectors = [[i, 2 * i, 3 * i] if i % 10 else None for i in range(ROWS)]
    frame = sales(seen=pl.Series(vectors, dtype=dtype))
    data = Dataset.from_frame(frame, numbers=["seen"], only=True)
    assert data.fields == (Field("seen", "number", 3, missing=True),)
    assert data.streams[0].inputs["seen"][0].tolist() == [1, 2, 3]  # east: rows 1, 4, 7, 10 ...
    assert bool(data.streams[0].inputs["seen"][3].isnan().all())


def test_lists_of_several_lengths_are_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        Dataset.from_frame(sales(seen=[[1.0] * (1 + i % 2) for i in range(ROWS)]))
    assert (caught.value.field, caught.value.found) == ("table: number seen", "lists of 1 to 2 numbers")


def test_columns_are_named_as_for_files() -> None:
    data = Dataset.from_frame(
        sales(), time="day", edge="shop", label="price", ids=["colour"], only=True, task="regress", name="mine"
    )
    assert (data.name, data.task, data.fields) == ("mine", "regress", (Field("colour", "id", 3),))


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(InvalidValue, match="polars, pandas or pyarrow"):
        Dataset.from_frame([1, 2, 3])


def test_a_simulation_of_a_bare_frame_says_how() -> None:
    frame: Any = sales()
    with pytest.raises(InvalidValue, match=r"Dataset\.from_frame\(frame, time=\.\.\., edge=\.\.\., label=\.\.\.\)"):
        simulate(data=frame)


def test_results_keep_what_was_noted_of_the_data() -> None:
    data = Dataset.from_frame(sales(sold=[None, 1, 0, 1, 0] * (ROWS // 5)))
    note = "label sold: 24 of 120 rows have none and are left out"
    assert data.notes == (note,)
    assert note in simulate(data=data, methods=["noagg"], batch_size=10).summary()["messages"]


def test_equal_frames_make_equal_data() -> None:
    frame = sales(price=[i / 8 for i in range(ROWS)])
    assert same(Dataset.from_frame(frame), Dataset.from_frame(frame.clone()))
