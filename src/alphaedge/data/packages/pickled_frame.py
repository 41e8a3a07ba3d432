"""Read a pickled pandas frame without pandas, and without running what a pickle can ask for.

A pickle names functions and calls them. This reader knows the few names of numpy and pandas that a frame needs. For
those of pandas it calls a class of its own that only keeps its arguments; any other name is refused.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import numpy as np
import polars as pl


def read_pickled_frame(content: bytes) -> pl.DataFrame:
    """Read the columns of a pickled ``pandas.DataFrame``. Raises ``pickle.UnpicklingError`` if it holds more."""
    frame = _Reader(io.BytesIO(content)).load()
    try:
        blocks, (names, _) = frame.state["_mgr"].arguments
        by_place = {
            int(at): row for block in blocks for at, row in zip(_places(block), block.arguments[0], strict=True)
        }
        return pl.DataFrame([_column(name, by_place[at]) for at, name in enumerate(_labels(names))])
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise pickle.UnpicklingError(f"not a pickled pandas frame ({error!r})") from error


@final
class _Held:
    """An object of pandas: the arguments that it was made with, and its state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _from_buffer(content: bytes, dtype: Any, shape: tuple[int, ...], order: Any) -> np.ndarray:
    return np.frombuffer(content, dtype=dtype).reshape(shape, order=order)


def _empty_array(kind: Any, shape: tuple[int, ...], _: bytes) -> np.ndarray:
    return np.ndarray(shape, dtype=np.int8)


_KNOWN: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("builtins", "slice"): slice,
    ("pandas.core.frame", "DataFrame"): _Held,
    ("pandas.core.internals.managers", "BlockManager"): _Held,
    ("pandas._libs.internals", "_unpickle_block"): _Held,
    ("pandas.core.indexes.base", "_new_Index"): _Held,
    ("pandas.core.indexes.base", "Index"): _Held,
    ("pandas.core.indexes.range", "RangeIndex"): _Held,
}


@final
class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name in the pickle."""
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a pickled frame")
        return _KNOWN[module, name]


def _places(block: _Held) -> Any:
    """Return the numbers of the columns that a block holds."""
    at = block.arguments[1]
    return range(at.start, at.stop, at.step or 1) if isinstance(at, slice) else at


def _column(name: str, values: np.ndarray) -> pl.Series:
    """Make a column. A missing text is a float in pandas, NaN."""
    if values.dtype.kind != "O":
        return pl.Series(name, values)
    return pl.Series(name, [None if isinstance(v, float) and v != v else v for v in values.tolist()])


def _labels(index: _Held) -> list[str]:
    return [str(name) for name in index.arguments[1]["data"]]
