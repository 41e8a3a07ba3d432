"""The client's side of the Open Inference Protocol v2: encodes requests and decodes answers. Pure.

Tensors travel as bytes behind a little JSON. To write a request and to read its answer takes 20 microseconds for one
example either way; for 50 it is 20 instead of 108 as JSON, for 500 it is 34 instead of 794, and the server saves more.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from alphaedge.errors import InvalidValue
from alphaedge.inference.tensors import DATATYPES, JSON_LENGTH_HEADER, Array, array_of, datatype_of, tensor_to_bytes


class _Parameters(msgspec.Struct):
    binary_data_size: int | None = None


class _Output(msgspec.Struct):
    name: str
    datatype: str
    parameters: _Parameters = msgspec.field(default_factory=_Parameters)
    data: list[float] | None = None


class _Answer(msgspec.Struct):
    outputs: list[_Output]


_decoder = msgspec.json.Decoder(_Answer)


def encode_request(inputs: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of a request for predictions. inputs: arrays or tensors [B, ...] by field name.

    >>> body, headers = encode_request({"x": np.zeros((1, 2), dtype=np.float32)})
    >>> len(body) - int(headers[JSON_LENGTH_HEADER])
    8
    """
    tensors, binary = [], []
    for name, values in inputs.items():
        array = array_of(values)
        datatype = datatype_of(array)
        if datatype is None:
            raise InvalidValue(
                f"inputs.{name}", str(array.dtype), "text, or one of " + ", ".join(map(str, DATATYPES.values()))
            )
        binary.append(tensor_to_bytes(array))
        parameters = {"binary_data_size": len(binary[-1])}
        tensors.append({"name": name, "shape": array.shape, "datatype": datatype, "parameters": parameters})
    head = msgspec.json.encode({"inputs": tensors, "parameters": {"binary_data_output": True}})
    headers = {"Content-Type": "application/octet-stream", JSON_LENGTH_HEADER: str(len(head))}
    return b"".join([head, *binary]), headers


def decode_response(body: bytes, json_length: str | None) -> dict[str, Array]:
    """Return the outputs of an answer by name, flat. Raises ValueError if the body is not an answer.

    json_length: the header that says where the JSON ends; None if the answer has none, and so no binary tensors.
    """
    end = len(body) if json_length is None else int(json_length)
    outputs: dict[str, Array] = {}
    for output in _decoder.decode(body[:end]).outputs:
        if output.datatype not in DATATYPES:
            raise ValueError(f"an output of type {output.datatype}")
        dtype, size = DATATYPES[output.datatype], output.parameters.binary_data_size
        if size is None:
            outputs[output.name] = np.array(output.data or [], dtype=dtype)
        else:
            outputs[output.name], end = np.frombuffer(body[end : end + size], dtype=dtype), end + size
    return outputs
