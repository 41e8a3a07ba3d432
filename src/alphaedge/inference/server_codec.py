"""The server's side of the Open Inference Protocol v2: parses requests and encodes answers. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, final

import msgspec
from msgspec import Meta

from alphaedge.errors import InvalidValue, RequestTooLarge
from alphaedge.inference.tensor_values import (
    MAX_DIMENSIONS,
    MAX_VALUES,
    SPACES,
    TensorHead,
    check_tensor,
    values_from_bytes,
    values_from_json,
    values_from_list,
)
from alphaedge.inference.tensors import JSON_LENGTH_HEADER, Array, datatype_of, tensor_to_bytes
from alphaedge.steps import Steps, run_at_once

SMALL_BYTES: Final = 1 << 16  # of a request whose values are decoded all at once
MAX_OBJECTS: Final = 2000  # in the JSON of a request
MAX_HEAD_BYTES: Final = 1 << 16  # of JSON beside the values

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


@final
class RequestLimits(NamedTuple):
    """The most that one request may have. bytes: of memory for its values; for numbers sent as bytes it takes none.

    json: bytes of JSON.
    """

    examples: int = MAX_VALUES
    bytes: int = MAX_VALUES
    json: int = MAX_VALUES


CheckInputs = Callable[[Sequence[TensorHead]], None]
"""Refuses inputs by their names and shapes."""

NO_LIMITS: Final = RequestLimits()
NOTHING: Final = msgspec.Raw(b"")


class _InputOutline(msgspec.Struct, omit_defaults=True):
    """An input whose parts are not decoded yet: they may be huge, or not be what they should."""

    name: msgspec.Raw = NOTHING
    shape: msgspec.Raw = NOTHING
    datatype: msgspec.Raw = NOTHING
    parameters: msgspec.Raw = NOTHING
    data: msgspec.Raw = NOTHING


class _Outline(msgspec.Struct, omit_defaults=True):
    """A request whose parts are not decoded yet."""

    inputs: list[_InputOutline]
    id: msgspec.Raw = NOTHING
    parameters: msgspec.Raw = NOTHING
    outputs: msgspec.Raw = NOTHING


_outline_decoder = msgspec.json.Decoder(_Outline)
_decoder = msgspec.json.Decoder(InferenceRequest)


def parse_request(
    body: bytes | bytearray, json_length: str | None = None, limits: RequestLimits = NO_LIMITS
) -> ParsedRequest:
    """Parse a request. json_length: the header that says where its JSON ends; None if it has no binary tensors."""
    length = None if json_length is None else read_json_length(json_length, limits)
    return run_at_once(parse_in_steps(body, length, limits))


def read_json_length(text: str, limits: RequestLimits) -> int:
    """Read the header that says where the JSON of a request ends; refuse more JSON than is allowed."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_VALUES)) or int(text) > MAX_VALUES:
        raise InvalidValue(JSON_LENGTH_HEADER, text, "a number of bytes, at most the length of the body")
    if int(text) > limits.json:
        raise RequestTooLarge(JSON_LENGTH_HEADER, int(text), f"at most {limits.json} bytes of JSON")
    return int(text)


def parse_in_steps(
    body: bytes | bytearray, json_length: int | None, limits: RequestLimits, check: CheckInputs | None = None
) -> Steps[ParsedRequest]:
    """Parse a request in short steps. Its limits are checked before its values are read.

    check: checks the inputs of a large request, also before their values are read.
    """
    end = len(body) if json_length is None else json_length
    if end > len(body):
        raise InvalidValue(JSON_LENGTH_HEADER, end, f"at most {len(body)}, the length of the body")
    request, data = _parse_head(body, end)
    tensors = _check_inputs(request, limits)
    binary = _find_bytes(request, memoryview(body), end)
    if len(body) > SMALL_BYTES:
        _check_memory(tensors, binary, data, limits)
        if check is not None:
            check(tensors)
        yield
    inputs: dict[str, Array] = {}
    for place, (tensor, one, sent) in enumerate(zip(tensors, request.inputs, binary, strict=True)):
        if sent is not None:
            values = yield from values_from_bytes(tensor, sent)
        elif data is not None:
            values = yield from values_from_json(tensor, data[place])
        else:
            values = values_from_list(tensor, one.data or [])
        inputs[tensor.name] = values
    as_bytes = request.parameters is not None and bool(request.parameters.binary_data_output)
    outputs = None
    if request.outputs is not None:
        wanted = {o.name: None if o.parameters is None else o.parameters.binary_data for o in request.outputs}
        outputs = {name: as_bytes if choice is None else choice for name, choice in wanted.items()}
    return ParsedRequest(request.id or "", inputs, outputs, as_bytes)


def _parse_head(body: bytes | bytearray, end: int) -> tuple[InferenceRequest, list[memoryview] | None]:
    """Decode a request. Of one that is not small, leave the values of its inputs out, and return the JSON of each."""
    try:
        if end <= SMALL_BYTES:
            return _decoder.decode(memoryview(body)[:end]), None
        return _parse_large_head(body, end)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue("request", f"{len(body)} bytes", f"an inference request ({error})") from None


def _parse_large_head(body: bytes | bytearray, end: int) -> tuple[InferenceRequest, list[memoryview]]:
    if body.count(b"{", 0, end) > MAX_OBJECTS:  # of which some may be in texts
        objects = body[:end].translate(None, SPACES).count(b'{"')
        if objects > MAX_OBJECTS:
            raise InvalidValue("request", f"{objects} objects", f"an inference request, at most {MAX_OBJECTS} objects")
    outline = _outline_decoder.decode(memoryview(body)[:end])
    data = [_list_of(memoryview(one.data)) for one in outline.inputs]
    for one in outline.inputs:
        one.data = NOTHING
    size = sum(len(memoryview(part)) for part in _parts(outline))
    if size > MAX_HEAD_BYTES:
        raise RequestTooLarge("request", f"{size} bytes beside the values", f"at most {MAX_HEAD_BYTES}")
    return _decoder.decode(msgspec.json.encode(outline)), data


def _parts(outline: _Outline) -> Iterator[msgspec.Raw]:
    yield from (outline.id, outline.parameters, outline.outputs)
    for one in outline.inputs:
        yield from (one.name, one.shape, one.datatype, one.parameters)


def _list_of(values: memoryview) -> memoryview:
    """Return the JSON of a list; refuse that of anything else."""
    start = bytes(values[:5])
    if start and start[:1] != b"[" and start != b"null":
        raise InvalidValue("inputs.data", start.decode(errors="replace"), "a list, in a request")
    return values if start[:1] == b"[" else values[:0]


def check_head(head: bytes, limits: RequestLimits, check: CheckInputs) -> None:
    """Check what a request says about itself before its binary tensors have arrived. head: its JSON."""
    request, _ = _parse_head(head, len(head))
    check(_check_inputs(request, limits))


def _find_bytes(request: InferenceRequest, body: memoryview, end: int) -> list[memoryview | None]:
    """Find the bytes of each input; None for one whose values are in the JSON. end: of the JSON."""
    found: list[memoryview | None] = []
    for one in request.inputs:
        size = None if one.parameters is None else one.parameters.binary_data_size
        if size is None:
            found.append(None)
            continue
        left = len(body) - end
        if not 0 <= size <= left:
            raise InvalidValue(f"inputs.{one.name}.binary_data_size", size, f"at most the {left} bytes left")
        found.append(body[end : end + size])
        end += size
    if end != len(body):
        raise InvalidValue("request", f"{len(body) - end} bytes too many", "no bytes behind the last binary tensor")
    return found


def _check_memory(
    tensors: list[TensorHead],
    binary: list[memoryview | None],
    data: list[memoryview] | None,
    limits: RequestLimits,
) -> None:
    memory = 0
    for place, (tensor, sent) in enumerate(zip(tensors, binary, strict=True)):
        if sent is not None:
            memory += tensor.memory_bytes(len(sent), binary=True)
        elif data is not None:
            memory += tensor.memory_bytes(len(data[place]), binary=False)
    if memory > limits.bytes:
        raise RequestTooLarge("inputs", f"{memory} bytes when decoded", f"at most {limits.bytes}; send fewer examples")


def _check_inputs(request: InferenceRequest, limits: RequestLimits) -> list[TensorHead]:
    tensors = [check_tensor(one.name, one.datatype, one.shape) for one in request.inputs]
    for tensor in tensors:
        if (examples := tensor.shape[0]) > limits.examples:
            allowed = f"at most {limits.examples} in one request"
            raise RequestTooLarge(f"{tensor.field}.shape", f"{examples} examples", allowed)
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise InvalidValue("inputs", [tensor.name for tensor in tensors], "each input once")
    return tensors


def check_outputs(request: ParsedRequest, known: Collection[str]) -> None:
    """Refuse a request for an output that there is not."""
    for name in request.outputs or ():
        if name not in known:
            raise InvalidValue("outputs", name, "one of " + ", ".join(known))


def encode_response(
    model: str, version: str, request: ParsedRequest, outputs: Mapping[str, Array]
) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of an answer with the outputs that a checked request asks for."""
    wanted = dict.fromkeys(outputs, request.binary) if request.outputs is None else request.outputs
    tensors, binary = [], []
    for name, as_bytes in wanted.items():
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
