"""The Open Inference Protocol v2 over REST: bytes to tensors and back. No server here.

A request is JSON; with the binary tensor extension the JSON is followed by the raw bytes of tensors, in the order in
which they are named, and a header says where the JSON ends. https://github.com/kserve/open-inference-protocol.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from alphaedge.errors import InvalidValue

Array = NDArray[Any]

JSON_LENGTH: Final = "inference-header-content-length"
TYPES: Final[Mapping[str, str]] = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_KINDS: Final = {name: np.dtype(code) for name, code in TYPES.items()}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_RANGES: Final = {name: (int(np.iinfo(k).min), int(np.iinfo(k).max)) for name, k in _KINDS.items() if k.kind in "iu"}
_ALLOWED: Final = {"b": frozenset({bool}), "i": frozenset({int}), "u": frozenset({int}), "f": frozenset({int, float})}
MOST_DIMENSIONS: Final = 8
MOST_VALUES: Final = 2**31 - 1  # of one tensor

# What ``extra_json_schema`` says is for whoever reads the description of the API: it is checked further down, where the
# refusal can name the input.
Size = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MOST_VALUES})]
Shape = Annotated[list[Size], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_DIMENSIONS})]
DataSize = Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class InputParameters(msgspec.Struct, frozen=True):
    """binary_data_size: bytes of this tensor behind the JSON. Others are anybody's own and are let pass."""

    binary_data_size: DataSize | None = None


class OutputParameters(msgspec.Struct, frozen=True):
    """binary_data: whether this output is wanted as bytes. Others are anybody's own and are let pass."""

    binary_data: bool | None = None


class RequestParameters(msgspec.Struct, frozen=True):
    """binary_data_output: whether all outputs are wanted as bytes. Others are anybody's own and are let pass."""

    binary_data_output: bool | None = None


class RequestInput(msgspec.Struct, frozen=True):
    """An input: its values as data, in row-major order and nested or not, or as bytes behind the JSON."""

    name: str
    shape: Shape
    datatype: str
    parameters: InputParameters | None = None
    data: list[Any] | None = None


class RequestOutput(msgspec.Struct, frozen=True):
    """An output that is wanted."""

    name: str
    parameters: OutputParameters | None = None


class InferenceRequest(msgspec.Struct, frozen=True):
    """The JSON of an inference request. outputs: those that are wanted, all if it is not there."""

    inputs: list[RequestInput]
    id: str | None = None
    parameters: RequestParameters | None = None
    outputs: list[RequestOutput] | None = None


class ResponseParameters(msgspec.Struct, frozen=True):
    """binary_data_size: bytes of this tensor behind the JSON."""

    binary_data_size: int


class ResponseOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output: its values in row-major order as data, or as bytes behind the JSON."""

    name: str
    datatype: str
    shape: list[int]
    parameters: ResponseParameters | msgspec.UnsetType = msgspec.UNSET
    data: list[Any] | msgspec.UnsetType = msgspec.UNSET


class InferenceResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON of an answer. id: that of the request, if it had one."""

    model_name: str
    model_version: str
    outputs: list[ResponseOutput]
    id: str | msgspec.UnsetType = msgspec.UNSET


@final
@dataclass(frozen=True)
class Call:
    """An inference request: its inputs by name, and which outputs it wants (None: all) in which form."""

    id: str
    inputs: dict[str, Array]
    outputs: dict[str, bool] | None  # name -> as binary
    binary: bool  # the form of outputs that are not named


_decoder = msgspec.json.Decoder(InferenceRequest)


def parse(body: bytes, json_length: str | None = None) -> Call:
    """A request from its body and, if it has one, the header that says where its JSON ends."""
    end = len(body) if json_length is None else _length(json_length, len(body))
    try:
        request = _decoder.decode(body[:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue("request", f"{len(body)} bytes", f"an inference request ({error})") from None
    inputs: dict[str, Array] = {}
    for one in request.inputs:
        if one.name in inputs:
            raise InvalidValue("inputs", one.name, "each input once")
        size = None if one.parameters is None else one.parameters.binary_data_size
        if size is not None:
            if not 0 <= size <= len(body) - end:
                raise InvalidValue(
                    f"inputs.{one.name}.binary_data_size", size, f"at most the {len(body) - end} bytes left"
                )
            inputs[one.name], end = _from_bytes(one, body[end : end + size]), end + size
        else:
            inputs[one.name] = _from_json(one)
    if end != len(body):
        raise InvalidValue("request", f"{len(body) - end} bytes too many", "no bytes behind the last binary tensor")
    binary = request.parameters is not None and bool(request.parameters.binary_data_output)
    outputs = None
    if request.outputs is not None:
        asked = {o.name: None if o.parameters is None else o.parameters.binary_data for o in request.outputs}
        outputs = {name: binary if form is None else form for name, form in asked.items()}
    return Call(request.id or "", inputs, outputs, binary)


def _length(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MOST_VALUES)) or int(text) > most:
        raise InvalidValue(JSON_LENGTH, text, f"a whole number of at most {most}, the length of the body")
    return int(text)


def _elements(one: RequestInput) -> int:
    if not 0 < len(one.shape) <= MOST_DIMENSIONS or min(one.shape) < 0:
        raise InvalidValue(f"inputs.{one.name}.shape", one.shape, f"1 to {MOST_DIMENSIONS} sizes of 0 or more")
    count = math.prod(one.shape)
    if (count or math.prod(n or 1 for n in one.shape)) > MOST_VALUES:  # a 0 among them does not make the others small
        raise InvalidValue(f"inputs.{one.name}.shape", one.shape, f"at most {MOST_VALUES} values")
    if one.datatype != "BYTES" and one.datatype not in TYPES:
        raise InvalidValue(f"inputs.{one.name}.datatype", one.datatype, "one of BYTES, " + ", ".join(TYPES))
    return count


def _from_json(one: RequestInput) -> Array:
    count = _elements(one)
    field = f"inputs.{one.name}.data"
    flat = _flat(field, one.data or [])
    if len(flat) != count:
        raise InvalidValue(field, f"{len(flat)} values", f"{count}, by its shape {one.shape}")
    if one.datatype == "BYTES":
        wrong = [v for v in flat if not isinstance(v, str)]
        if wrong:
            raise InvalidValue(field, wrong[0], "text")
        made = np.empty(count, dtype=object)
        made[:] = [v.encode() for v in flat]
        return made.reshape(one.shape)
    kind = _KINDS[one.datatype]
    if not _ALLOWED[kind.kind].issuperset(map(type, flat)):
        wrong = [v for v in flat if type(v) not in _ALLOWED[kind.kind]]
        raise InvalidValue(field, wrong[0], f"numbers of type {one.datatype}")
    try:
        if kind.kind != "f":
            return np.array(flat, dtype=kind).reshape(one.shape)
        with np.errstate(over="ignore"):  # what becomes infinite is refused by whoever wants finite numbers
            return np.array(flat, dtype=kind).reshape(one.shape)
    except OverflowError:
        low, high = _RANGES.get(one.datatype, (-math.inf, math.inf))
        wrong = [v for v in flat if not low <= v <= high] or [max(flat, key=abs)]
        within = f"from {low} to {high}, which" if one.datatype in _RANGES else "that"
        raise InvalidValue(field, wrong[0], f"numbers {within} {one.datatype} can hold") from None


def _flat(field: str, data: list[Any]) -> list[Any]:
    """Values in row-major order, however deeply they are nested, as far as a shape can say."""
    for _ in range(MOST_DIMENSIONS):
        if list not in map(type, data):
            return data
        data = [w for v in data for w in (v if isinstance(v, list) else [v])]
    raise InvalidValue(field, "lists in lists in lists", f"at most {MOST_DIMENSIONS} deep")


def _from_bytes(one: RequestInput, raw: bytes) -> Array:
    count, field = _elements(one), f"inputs.{one.name}.binary_data_size"
    if one.datatype != "BYTES":
        kind = np.dtype(TYPES[one.datatype])
        if len(raw) != count * kind.itemsize:
            raise InvalidValue(field, len(raw), f"{count * kind.itemsize}, by its shape {one.shape} and type")
        if kind.kind == "b" and (np.frombuffer(raw, np.uint8) > 1).any():
            raise InvalidValue(f"inputs.{one.name}", "a byte above 1", "0 or 1 for BOOL")
        return np.frombuffer(raw, dtype=kind).reshape(one.shape)
    parts: list[bytes] = []
    at = 0
    while at + 4 <= len(raw) and len(parts) < count:
        size = int.from_bytes(raw[at : at + 4], "little")
        parts.append(raw[at + 4 : at + 4 + size])
        at += 4 + size
    if len(parts) != count or at != len(raw):
        raise InvalidValue(field, len(raw), f"{count} values, each behind its length in 4 bytes")
    made = np.empty(count, dtype=object)
    made[:] = parts
    return made.reshape(one.shape)


def respond(model: str, version: str, call: Call, outputs: Mapping[str, Array]) -> tuple[bytes, dict[str, str]]:
    """The body and headers of an answer with the outputs that were asked for."""
    wanted = dict.fromkeys(outputs, call.binary) if call.outputs is None else call.outputs
    listed, raw = [], []
    for name, binary in wanted.items():
        if name not in outputs:
            raise InvalidValue("outputs", name, "one of " + ", ".join(outputs))
        array = outputs[name]
        kind, shape = _datatype(array), list(array.shape)
        if binary:
            raw.append(_to_bytes(array))
            listed.append(ResponseOutput(name, kind, shape, parameters=ResponseParameters(len(raw[-1]))))
        else:
            values = [v.decode() for v in array.flat] if array.dtype == object else array.flatten().tolist()
            listed.append(ResponseOutput(name, kind, shape, data=values))
    answer = InferenceResponse(model, version, listed, call.id or msgspec.UNSET)
    text = msgspec.json.encode(answer)
    if not any(wanted.values()):
        return text, {"content-type": "application/json"}
    return b"".join([text, *raw]), {"content-type": "application/octet-stream", JSON_LENGTH: str(len(text))}


def _datatype(array: Array) -> str:
    if array.dtype == object:
        return "BYTES"
    return _NAMES[array.dtype]


def _to_bytes(array: Array) -> bytes:
    if array.dtype == object:
        return b"".join(len(v).to_bytes(4, "little") + v for v in array.flat)
    return array.tobytes()
