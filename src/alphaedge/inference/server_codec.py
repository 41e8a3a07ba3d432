"""The server's side of the Open Inference Protocol v2: parses requests and encodes answers. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, final

import msgspec
import numpy as np
from msgspec import Meta

from alphaedge.errors import InvalidValue
from alphaedge.inference.tensors import DATATYPES, JSON_LENGTH_HEADER, Array, datatype_of, tensor_to_bytes

MAX_DIMENSIONS: Final = 8
MAX_VALUES: Final = 2**31 - 1  # of one tensor
# Types that a JSON value may have, by the kind of the array's type.
_JSON_TYPES: Final = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({int, float}),
}

# ``extra_json_schema`` documents limits in the description of the API; they are checked below, where the error can name
# the input.
Size = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_VALUES})]
Shape = Annotated[list[Size], Meta(extra_json_schema={"minItems": 1, "maxItems": MAX_DIMENSIONS})]
DataSize = Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class InputParameters(msgspec.Struct, frozen=True):
    """binary_data_size: bytes of this tensor behind the JSON. Other parameters are ignored."""

    binary_data_size: DataSize | None = None


class OutputParameters(msgspec.Struct, frozen=True):
    """binary_data: whether to return this output as bytes. Other parameters are ignored."""

    binary_data: bool | None = None


class RequestParameters(msgspec.Struct, frozen=True):
    """binary_data_output: whether to return all outputs as bytes. Other parameters are ignored."""

    binary_data_output: bool | None = None


class RequestInput(msgspec.Struct, frozen=True):
    """An input. data: its values in row-major order, nested or flat; absent if they follow as bytes behind the JSON."""

    name: str
    shape: Shape
    datatype: str
    parameters: InputParameters | None = None
    data: list[Any] | None = None


class RequestOutput(msgspec.Struct, frozen=True):
    """An output to return."""

    name: str
    parameters: OutputParameters | None = None


class InferenceRequest(msgspec.Struct, frozen=True):
    """The JSON of an inference request. outputs: those to return; all if absent."""

    inputs: list[RequestInput]
    id: str | None = None
    parameters: RequestParameters | None = None
    outputs: list[RequestOutput] | None = None


class ResponseParameters(msgspec.Struct, frozen=True):
    """binary_data_size: bytes of this tensor behind the JSON."""

    binary_data_size: int


class ResponseOutput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output. data: its values in row-major order; absent if they follow as bytes behind the JSON."""

    name: str
    datatype: str
    shape: list[int]
    parameters: ResponseParameters | msgspec.UnsetType = msgspec.UNSET
    data: list[Any] | msgspec.UnsetType = msgspec.UNSET


class InferenceResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON of an answer. id: the request's, if it has one."""

    model_name: str
    model_version: str
    outputs: list[ResponseOutput]
    id: str | msgspec.UnsetType = msgspec.UNSET


@final
@dataclass(frozen=True)
class ParsedRequest:
    """A parsed inference request.

    inputs: by name. outputs: whether each output to return is returned as bytes, by name; None: all outputs.
    binary: whether outputs that are not named are returned as bytes.
    """

    id: str
    inputs: dict[str, Array]
    outputs: dict[str, bool] | None
    binary: bool


_decoder = msgspec.json.Decoder(InferenceRequest)


def parse_request(body: bytes, json_length: str | None = None) -> ParsedRequest:
    """Parse a request. json_length: the header that says where its JSON ends; None if it has no binary tensors."""
    end = len(body) if json_length is None else _parse_length(json_length, len(body))
    try:
        request = _decoder.decode(body[:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue("request", f"{len(body)} bytes", f"an inference request ({error})") from None
    inputs: dict[str, Array] = {}
    for tensor in request.inputs:
        if tensor.name in inputs:
            raise InvalidValue("inputs", tensor.name, "each input once")
        size = None if tensor.parameters is None else tensor.parameters.binary_data_size
        if size is None:
            inputs[tensor.name] = _from_json(tensor)
            continue
        left = len(body) - end
        if not 0 <= size <= left:
            raise InvalidValue(f"inputs.{tensor.name}.binary_data_size", size, f"at most the {left} bytes left")
        inputs[tensor.name], end = _from_bytes(tensor, body[end : end + size]), end + size
    if end != len(body):
        raise InvalidValue("request", f"{len(body) - end} bytes too many", "no bytes behind the last binary tensor")
    binary = request.parameters is not None and bool(request.parameters.binary_data_output)
    outputs = None
    if request.outputs is not None:
        wanted = {o.name: None if o.parameters is None else o.parameters.binary_data for o in request.outputs}
        outputs = {name: binary if as_bytes is None else as_bytes for name, as_bytes in wanted.items()}
    return ParsedRequest(request.id or "", inputs, outputs, binary)


def _parse_length(text: str, limit: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_VALUES)) or int(text) > limit:
        raise InvalidValue(JSON_LENGTH_HEADER, text, f"a whole number of at most {limit}, the length of the body")
    return int(text)


def _count_values(tensor: RequestInput) -> int:
    """Return how many values a tensor has; refuse a shape or a datatype that is not allowed."""
    if not 0 < len(tensor.shape) <= MAX_DIMENSIONS or min(tensor.shape) < 0:
        raise InvalidValue(f"inputs.{tensor.name}.shape", tensor.shape, f"1 to {MAX_DIMENSIONS} sizes of 0 or more")
    count = math.prod(tensor.shape)
    if (count or math.prod(n or 1 for n in tensor.shape)) > MAX_VALUES:  # a size of 0 does not make the others small
        raise InvalidValue(f"inputs.{tensor.name}.shape", tensor.shape, f"at most {MAX_VALUES} values")
    if tensor.datatype != "BYTES" and tensor.datatype not in DATATYPES:
        raise InvalidValue(f"inputs.{tensor.name}.datatype", tensor.datatype, "one of BYTES, " + ", ".join(DATATYPES))
    return count


def _from_json(tensor: RequestInput) -> Array:
    count = _count_values(tensor)
    field = f"inputs.{tensor.name}.data"
    values = _flatten(field, tensor.data or [])
    if len(values) != count:
        raise InvalidValue(field, f"{len(values)} values", f"{count}, by its shape {tensor.shape}")
    if tensor.datatype == "BYTES":
        wrong = [v for v in values if not isinstance(v, str)]
        if wrong:
            raise InvalidValue(field, wrong[0], "text")
        return _text_array([v.encode() for v in values], tensor.shape)
    dtype = DATATYPES[tensor.datatype]
    if not _JSON_TYPES[dtype.kind].issuperset(map(type, values)):
        wrong = [v for v in values if type(v) not in _JSON_TYPES[dtype.kind]]
        raise InvalidValue(field, wrong[0], f"numbers of type {tensor.datatype}")
    try:
        if dtype.kind != "f":
            return np.array(values, dtype=dtype).reshape(tensor.shape)
        with np.errstate(over="ignore"):  # infinity is refused where finite numbers are needed
            return np.array(values, dtype=dtype).reshape(tensor.shape)
    except OverflowError:
        raise _overflow(field, values, tensor.datatype) from None


def _overflow(field: str, values: list[Any], datatype: str) -> InvalidValue:
    if DATATYPES[datatype].kind not in "iu":
        return InvalidValue(field, max(values, key=abs), f"numbers that {datatype} can hold")
    limits = np.iinfo(DATATYPES[datatype])
    wrong = [v for v in values if not limits.min <= v <= limits.max]
    return InvalidValue(field, wrong[0], f"numbers from {limits.min} to {limits.max}, which {datatype} can hold")


def _flatten(field: str, data: list[Any]) -> list[Any]:
    """Return values in row-major order, at whatever depth they are nested, up to the dimensions of a shape."""
    for _ in range(MAX_DIMENSIONS):
        if list not in map(type, data):
            return data
        data = [w for v in data for w in (v if isinstance(v, list) else [v])]
    raise InvalidValue(field, "lists in lists in lists", f"at most {MAX_DIMENSIONS} deep")


def _from_bytes(tensor: RequestInput, raw: bytes) -> Array:
    count, field = _count_values(tensor), f"inputs.{tensor.name}.binary_data_size"
    if tensor.datatype != "BYTES":
        dtype = DATATYPES[tensor.datatype]
        if len(raw) != count * dtype.itemsize:
            raise InvalidValue(field, len(raw), f"{count * dtype.itemsize}, by its shape {tensor.shape} and type")
        if dtype.kind == "b" and (np.frombuffer(raw, np.uint8) > 1).any():
            raise InvalidValue(f"inputs.{tensor.name}", "a byte above 1", "0 or 1 for BOOL")
        return np.frombuffer(raw, dtype=dtype).reshape(tensor.shape)
    texts: list[bytes] = []
    at = 0
    while at + 4 <= len(raw) and len(texts) < count:
        size = int.from_bytes(raw[at : at + 4], "little")
        texts.append(raw[at + 4 : at + 4 + size])
        at += 4 + size
    if len(texts) != count or at != len(raw):
        raise InvalidValue(field, len(raw), f"{count} values, each behind its length in 4 bytes")
    return _text_array(texts, tensor.shape)


def _text_array(texts: list[bytes], shape: list[int]) -> Array:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)


def encode_response(
    model: str, version: str, request: ParsedRequest, outputs: Mapping[str, Array]
) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of an answer with the outputs that the request asks for."""
    wanted = dict.fromkeys(outputs, request.binary) if request.outputs is None else request.outputs
    tensors, binary = [], []
    for name, as_bytes in wanted.items():
        if name not in outputs:
            raise InvalidValue("outputs", name, "one of " + ", ".join(outputs))
        array = outputs[name]
        datatype, shape = datatype_of(array), list(array.shape)
        assert datatype is not None
        if as_bytes:
            binary.append(tensor_to_bytes(array))
            tensors.append(ResponseOutput(name, datatype, shape, parameters=ResponseParameters(len(binary[-1]))))
        else:
            values = [v.decode() for v in array.flat] if array.dtype == object else array.flatten().tolist()
            tensors.append(ResponseOutput(name, datatype, shape, data=values))
    head = msgspec.json.encode(InferenceResponse(model, version, tensors, request.id or msgspec.UNSET))
    if not any(wanted.values()):
        return head, {"content-type": "application/json"}
    return b"".join([head, *binary]), {"content-type": "application/octet-stream", JSON_LENGTH_HEADER: str(len(head))}
