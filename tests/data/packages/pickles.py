"""Write the pickle of a pandas frame by hand, instruction by instruction, as pandas 2 would write it."""

import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def pickled_frame(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Pickle a frame: a block for each column, the place of each block, and the names of the columns."""
    count = len(next(iter(columns.values())))
    blocks = [_block(place, values) for place, values in enumerate(columns.values())]
    names = _call("pandas.core.indexes.base", "_new_Index", _INDEX, _dict(data=_objects(list(columns))))
    rows = _call("pandas.core.indexes.base", "_new_Index", _RANGE, _dict(start=_value(0), stop=_value(count)))
    manager = _call("pandas.core.internals.managers", "BlockManager", _tuple(*blocks), _list(names, rows))
    return _call("pandas.core.frame", "DataFrame") + _dict(_mgr=manager) + b"b."


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


_INDEX = _global("pandas.core.indexes.base", "Index")
_RANGE = _global("pandas.core.indexes.range", "RangeIndex")


def _call(module: str, name: str, *arguments: bytes) -> bytes:
    return _global(module, name) + _tuple(*arguments) + b"R"


def _tuple(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def _list(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"l"


def _dict(**parts: bytes) -> bytes:
    return b"(" + b"".join(_value(key) + part for key, part in parts.items()) + b"d"


def _value(value: Any) -> bytes:
    return pickle.dumps(value, protocol=0)[:-1]


def _bytes(content: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(content)) + content


def _block(place: int, values: Sequence[Any]) -> bytes:
    places = _call("builtins", "slice", _value(place), _value(place + 1), _value(1))
    text = any(isinstance(v, str) for v in values)
    array = _objects([list(values)]) if text else _numbers(np.array([values]))
    return _call("pandas._libs.internals", "_unpickle_block", array, places, _value(2))


def _numbers(array: np.ndarray) -> bytes:
    kind = _call("numpy", "dtype", _value(array.dtype.str))
    shape = _tuple(*map(_value, array.shape))
    return _call("numpy.core.numeric", "_frombuffer", _bytes(array.tobytes()), kind, shape, _value("C"))


def _objects(values: list[Any]) -> bytes:
    array = np.array(values, dtype=object)
    kind = _call("numpy", "dtype", _value("O8"), _value(False), _value(True))
    kind += _value((3, "|", None, None, None, -1, -1, 63)) + b"b"
    empty = _call("numpy.core.multiarray", "_reconstruct", _global("numpy", "ndarray"), _value((0,)), _bytes(b"b"))
    state = _tuple(_value(1), _value(array.shape), kind, _value(False), _value(array.ravel().tolist()))
    return empty + state + b"b"
