"""Tensors of the Open Inference Protocol v2: their datatypes, and their bytes in the binary tensor extension.

With that extension the JSON of a request or an answer is followed by the raw bytes of its tensors, in the order in
which the JSON names them; a header says where the JSON ends. https://github.com/kserve/open-inference-protocol.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from alphaedge.values import digits

Array = NDArray[Any]

JSON_LENGTH_HEADER: Final = "inference-header-content-length"
DATATYPES: Final[Mapping[str, np.dtype[Any]]] = {  # without BYTES, which is text: arrays of objects here
    name: np.dtype(code)
    for name, code in {
        "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
        "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
    }.items()
}  # fmt: skip
NOT_THERE: Final = frozenset({"None", "nan", "NaN", "NaT", "<NA>"})  # what Python and pandas show for no value
DATATYPE_NAMES: Final[Mapping[np.dtype[Any], str]] = {dtype: name for name, dtype in DATATYPES.items()}


def array_of(values: Any) -> Array:
    """Return values as an array. Text stays a list of objects: numpy would write a NaN among texts as a text.

    >>> array_of(["ann", float("nan")])
    array(['ann', nan], dtype=object)
    """
    array = np.asarray(values)
    return array if array.dtype.kind not in "US" else np.asarray(values, dtype=object)


def texts_of(array: Array) -> list[bytes]:
    """Return values as texts in row-major order; one that is missing is the empty text, as null is in JSON.

    >>> texts_of(np.array(["ann", None, float("nan"), 7, "nan"], dtype=object))
    [b'ann', b'', b'', b'7', b'nan']
    """
    return [value if isinstance(value, bytes) else _text(value).encode() for value in array.flat]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = digits(value) if isinstance(value, int) else str(value)
    return "" if text in NOT_THERE else text


def datatype_of(array: Array) -> str | None:
    """Return the protocol's name for an array's type; None if the protocol has none.

    >>> datatype_of(np.zeros(2, np.float32)), datatype_of(np.array(["ann"])), datatype_of(np.zeros(1, complex))
    ('FP32', 'BYTES', None)
    """
    return "BYTES" if array.dtype.kind in "OUS" else DATATYPE_NAMES.get(array.dtype)


def tensor_to_bytes(array: Array) -> bytes:
    """Return an array's values in row-major order; each text stands behind its length in 4 bytes.

    >>> tensor_to_bytes(np.array(["ann"]))
    b'\\x03\\x00\\x00\\x00ann'
    """
    if array.dtype.kind not in "OUS":
        return array.tobytes()
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts_of(array))
