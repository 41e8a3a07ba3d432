"""A pickled frame is read without pandas, and a pickle that asks for anything else is refused."""

import os
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alphaedge.data.packages.pickled_frame import read_pickled_frame

from .pickles import pickled_frame


def test_numbers_texts_and_missing_texts_are_read() -> None:
    columns = {"year": [1969, 1970], "state": ["AK", float("nan")], "rating": [2.5, 4.0]}
    frame = read_pickled_frame(pickled_frame(columns))
    assert frame.equals(pl.DataFrame({"year": [1969, 1970], "state": ["AK", None], "rating": [2.5, 4.0]}))


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_runs_something_is_refused_and_nothing_is_run(tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match="mkdir has no place"):
        read_pickled_frame(pickle.dumps(Harmful(tmp_path / "harmed")))
    assert not (tmp_path / "harmed").exists()


def test_something_else_than_a_frame_is_refused() -> None:
    for thing in ([1, 2], {"_mgr": 3}, slice(1, 2)):
        with pytest.raises(pickle.UnpicklingError):
            read_pickled_frame(pickle.dumps(thing))
