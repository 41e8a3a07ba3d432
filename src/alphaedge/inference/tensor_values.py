"""The values of a request's tensors, read from JSON or from bytes in short steps. Pure.

What is read takes no more memory than ``memory_bytes`` says, which is known before the first value is read.
"""

import contextlib
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

import msgspec
import numpy as np

from alphaedge.errors import InvalidValue
from alphaedge.inference.tensors import DATATYPES, Array
from alphaedge.steps import Steps

MAX_DIMENSIONS: Final = 8
MAX_VALUES: Final = 2**31 - 1  # of one tensor
MAX_TEXT_BYTES: Final = 1 << 16  # of one text
TEXT_OBJECT_BYTES: Final = 64  # that a text takes in memory beside its own bytes
STEP_BYTES: Final = 1 << 16  # of JSON that one step decodes
STEP_TEXTS: Final = 2048  # that one step reads
# Types that a JSON value may have, by the kind of the array's type.
_JSON_TYPES: Final = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({int, float, type(None)}),  # null is NaN
}
SPACES: Final = b" \t\r\n"
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|null', re.DOTALL)  # possessive: needs no memory to go back
_numbers: Final = msgspec.json.Decoder(list[Any])
_floats: Final = msgspec.json.Decoder(list[float])
_texts: Final = msgspec.json.Decoder(list[str | None])


@final
class TensorHead(NamedTuple):
    """What a request says about a tensor before its values. size: the number of values."""

    name: str
    datatype: str
    shape: list[int]
    size: int

    @property
    def field(self) -> str:
        """The name of the tensor in errors."""
        return f"inputs.{self.name}"

    def memory_bytes(self, sent: int, *, binary: bool) -> int:
        """How much memory its values take beside the request. sent: their bytes in the request."""
        if self.datatype == "BYTES":
            return TEXT_OBJECT_BYTES * self.size + sent
        return 0 if binary else DATATYPES[self.datatype].itemsize * self.size


def check_tensor(name: str, datatype: str, shape: list[int]) -> TensorHead:
    """Count the values of a tensor; refuse a shape or a datatype that is not allowed."""
    if not 0 < len(shape) <= MAX_DIMENSIONS or min(shape) < 0:
        raise InvalidValue(f"inputs.{name}.shape", shape, f"1 to {MAX_DIMENSIONS} sizes of 0 or more")
    count = math.prod(shape)
    if (count or math.prod(n or 1 for n in shape)) > MAX_VALUES:  # a size of 0 does not make the others small
        raise InvalidValue(f"inputs.{name}.shape", shape, f"at most {MAX_VALUES} values")
    if datatype != "BYTES" and datatype not in DATATYPES:
        raise InvalidValue(f"inputs.{name}.datatype", datatype, "one of BYTES, " + ", ".join(DATATYPES))
    return TensorHead(name, datatype, shape, count)


def values_from_list(tensor: TensorHead, values: list[Any]) -> Array:
    """Read values from a short list, flat or nested, in row-major order."""
    field = f"{tensor.field}.data"
    for _ in range(MAX_DIMENSIONS):
        if list not in map(type, values):
            break
        values = [w for v in values for w in (v if isinstance(v, list) else [v])]
    else:
        raise InvalidValue(field, "lists in lists in lists", f"at most {MAX_DIMENSIONS} deep")
    _check_count(tensor, len(values))
    if tensor.datatype != "BYTES":
        return _number_array(field, tensor.datatype, values).reshape(tensor.shape)
    wrong = [v for v in values if not isinstance(v, str | None)]
    if wrong:
        raise InvalidValue(field, wrong[0], "text")
    return _text_array([(v or "").encode() for v in values], tensor.shape)


def values_from_json(tensor: TensorHead, sent: memoryview) -> Steps[Array]:
    """Read values from a long JSON list, flat or nested, in row-major order. sent: the list; its syntax was checked."""
    return (_texts_from_json if tensor.datatype == "BYTES" else _numbers_from_json)(tensor, sent)


def values_from_bytes(tensor: TensorHead, sent: memoryview) -> Steps[Array]:
    """Read values from their bytes. Numbers are not copied."""
    count = tensor.size
    if tensor.datatype == "BYTES":
        return (yield from _texts_from_bytes(tensor, count, sent))
    dtype = DATATYPES[tensor.datatype]
    if len(sent) != count * dtype.itemsize:
        field = f"{tensor.field}.binary_data_size"
        raise InvalidValue(field, len(sent), f"{count * dtype.itemsize}, by its shape {tensor.shape} and type")
    if dtype.kind == "b" and count and np.frombuffer(sent, np.uint8).max() > 1:
        raise InvalidValue(tensor.field, "a byte above 1", "0 or 1 for BOOL")
    return np.frombuffer(sent, dtype=dtype).reshape(tensor.shape)


def _numbers_from_json(tensor: TensorHead, sent: memoryview) -> Steps[Array]:
    count, dtype, field = tensor.size, DATATYPES[tensor.datatype], f"{tensor.field}.data"
    array, filled, at, rest = np.empty(count, dtype), 0, 0, b""
    while at < len(sent):
        # Without brackets and spaces, nested lists are flat, and any comma is a place to cut.
        piece = rest + bytes(sent[at : at + STEP_BYTES]).translate(None, b"[]" + SPACES)
        at += STEP_BYTES
        end = piece.rfind(b",") if at < len(sent) else len(piece)
        if len(piece) - end > STEP_BYTES:
            raise InvalidValue(field, "one that is very long", f"numbers of type {tensor.datatype}")
        if end > 0:
            values = _decode_numbers(field, tensor.datatype, piece[:end])
            start, filled = filled, filled + len(values)
            if filled > count:
                break
            array[start:filled] = values
            yield
        rest = piece[end + 1 :]
    _check_count(tensor, filled)
    return array.reshape(tensor.shape)


def _decode_numbers(field: str, datatype: str, text: bytes) -> Array:
    listed = b"[%b]" % text
    try:
        if DATATYPES[datatype].kind == "f":  # most JSON that is large; the decoder compares types as it goes
            with contextlib.suppress(msgspec.ValidationError):
                return _float_array(datatype, _floats.decode(listed))
        values = _numbers.decode(listed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidValue(field, "other values", f"numbers of type {datatype} ({error})") from None
    return _number_array(field, datatype, values)


def _number_array(field: str, datatype: str, values: list[Any]) -> Array:
    dtype = DATATYPES[datatype]
    if not _JSON_TYPES[dtype.kind].issuperset(map(type, values)):
        wrong = [v for v in values if type(v) not in _JSON_TYPES[dtype.kind]]
        raise InvalidValue(field, wrong[0], f"numbers of type {datatype}")
    try:
        return _float_array(datatype, values) if dtype.kind == "f" else np.array(values, dtype=dtype)
    except OverflowError:
        raise _overflow(field, values, datatype) from None


def _float_array(datatype: str, values: list[float]) -> Array:
    with np.errstate(over="ignore"):  # infinity is refused where finite numbers are needed
        return np.array(values, dtype=DATATYPES[datatype])


def _overflow(field: str, values: list[Any], datatype: str) -> InvalidValue:
    if DATATYPES[datatype].kind not in "iu":
        return InvalidValue(
            field, max((v for v in values if v is not None), key=abs), f"numbers that {datatype} can hold"
        )
    limits = np.iinfo(DATATYPES[datatype])
    wrong = [v for v in values if not limits.min <= v <= limits.max]
    return InvalidValue(field, wrong[0], f"numbers from {limits.min} to {limits.max}, which {datatype} can hold")


def _texts_from_json(tensor: TensorHead, sent: memoryview) -> Steps[Array]:
    field = f"{tensor.field}.data"
    texts: list[bytes] = []
    tokens: list[bytes] = []
    size = at = 0
    for found in _TEXT.finditer(sent):
        _check_separator(field, bytes(sent[at : found.start()]))
        token, at = found[0], found.end()
        if len(token) > MAX_TEXT_BYTES:
            raise InvalidValue(field, f"a text of {len(token)} bytes", f"at most {MAX_TEXT_BYTES}")
        tokens.append(token)
        size += len(token)
        if len(tokens) == STEP_TEXTS or size > STEP_BYTES:
            texts += _decode_texts(field, tokens)
            tokens, size = [], 0
            if len(texts) > tensor.size:
                break
            yield
    else:
        _check_separator(field, bytes(sent[at:]))
    texts += _decode_texts(field, tokens)
    _check_count(tensor, len(texts))
    return _text_array(texts, tensor.shape)


def _check_separator(field: str, between: bytes) -> None:
    """Refuse values between two texts that are no texts."""
    if between == b",":
        return
    if len(between) > MAX_TEXT_BYTES or between.strip(b"[]," + SPACES):
        shown = between[:MAX_TEXT_BYTES].strip(b"[]," + SPACES)[:100].decode(errors="replace")
        raise InvalidValue(field, shown or "lists without values", "text")


def _decode_texts(field: str, tokens: list[bytes]) -> list[bytes]:
    try:
        return [(text or "").encode() for text in _texts.decode(b"[%b]" % b",".join(tokens))]
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidValue(field, "other values", f"text ({error})") from None


def _texts_from_bytes(tensor: TensorHead, count: int, sent: memoryview) -> Steps[Array]:
    texts: list[bytes] = []
    at = 0
    while at + 4 <= len(sent) and len(texts) < count:
        size = int.from_bytes(sent[at : at + 4], "little")
        texts.append(bytes(sent[at + 4 : at + 4 + size]))
        at += 4 + size
        if len(texts) % STEP_TEXTS == 0:
            yield
    if len(texts) != count or at != len(sent):
        field = f"{tensor.field}.binary_data_size"
        raise InvalidValue(field, len(sent), f"{count} values, each behind its length in 4 bytes")
    return _text_array(texts, tensor.shape)


def _check_count(tensor: TensorHead, found: int) -> None:
    if found != tensor.size:
        raise InvalidValue(f"{tensor.field}.data", f"{found} values", f"{tensor.size}, by its shape {tensor.shape}")


def _text_array(texts: list[bytes], shape: Sequence[int]) -> Array:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)
