"""The server's codec and tritonclient understand each other, and wrong requests are refused by name."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from alphaedge import InvalidValue
from alphaedge.errors import RequestTooLarge
from alphaedge.inference.server_codec import (
    NO_LIMITS,
    RequestLimits,
    check_head,
    check_outputs,
    encode_response,
    parse_in_steps,
    parse_request,
    read_json_length,
)
from alphaedge.inference.tensor_values import STEP_BYTES, TensorHead
from alphaedge.inference.tensors import DATATYPES, JSON_LENGTH_HEADER, Array, datatype_of

NUMBERS = st.sampled_from(list(DATATYPES.values())).flatmap(
    lambda kind: arrays.arrays(kind, arrays.array_shapes(max_dims=3, max_side=4), elements=_elements(kind))
)
TEXTS = arrays.arrays(object, arrays.array_shapes(max_dims=2, max_side=4), elements=st.text().map(str.encode))


def _elements(kind: np.dtype[Any]) -> st.SearchStrategy[Any]:
    plain = {"allow_nan": False, "allow_infinity": False} if kind.kind == "f" else {}
    return arrays.from_dtype(kind, **plain)  # type: ignore[arg-type]


def sent(inputs: dict[str, Array], *, binary: bool, outputs: list[Any] | None = None) -> tuple[bytes, str | None]:
    """Return the body and the JSON length that tritonclient sends."""
    made = []
    for name, array in inputs.items():
        one = triton.InferInput(name, list(array.shape), datatype_of(array))
        one.set_data_from_numpy(array, binary_data=binary)
        made.append(one)
    body, length = triton.InferenceServerClient.generate_request_body(made, outputs=outputs, request_id="r1")
    return body if isinstance(body, bytes) else body.encode(), None if length is None else str(length)


def same(one: Array, two: Array) -> bool:
    return one.shape == two.shape and bool((one == two).all()) and one.dtype == two.dtype


@given(st.dictionaries(st.text("abc", min_size=1), st.one_of(NUMBERS, TEXTS), min_size=1, max_size=3), st.booleans())
def test_requests_of_tritonclient_are_parsed(inputs: dict[str, Array], binary: bool) -> None:
    # The client itself refuses to put half-precision numbers into JSON.
    inputs = {k: v for k, v in inputs.items() if binary or v.dtype != np.float16}
    if not inputs:
        return
    call = parse_request(*sent(inputs, binary=binary))
    assert call.id == "r1"
    assert list(call.inputs) == list(inputs)
    assert all(same(call.inputs[name], array) for name, array in inputs.items())


@given(st.dictionaries(st.text("abc", min_size=1), st.one_of(NUMBERS, TEXTS), min_size=1, max_size=3), st.booleans())
def test_tritonclient_decodes_answers(outputs: dict[str, Array], binary: bool) -> None:
    outputs = {k: v for k, v in outputs.items() if binary or v.dtype != np.float16}
    wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in outputs]
    call = parse_request(*sent({"x": np.zeros(1, np.float32)}, binary=False, outputs=wanted))
    body, headers = encode_response("shop", "7", call, outputs)
    length = headers.get(JSON_LENGTH_HEADER)
    found = triton.InferenceServerClient.parse_response_body(
        body, header_length=None if length is None else int(length)
    )
    assert found.get_response()["model_name"] == "shop"
    assert found.get_response()["model_version"] == "7"
    assert found.get_response()["id"] == "r1"
    for name, array in outputs.items():
        decoded = found.as_numpy(name)
        if not binary and array.dtype == object:  # tritonclient leaves text in JSON as it is
            array = np.array([v.decode() for v in array.flat], dtype=object).reshape(array.shape)
        assert same(decoded, array)


def test_outputs_are_those_that_the_request_names_or_all() -> None:
    every = {"y": np.ones(2, np.float32), "prediction_id": np.arange(2)}
    plain = parse_request(one())
    assert [o["name"] for o in json.loads(encode_response("m", "1", plain, every)[0])["outputs"]] == [
        "y",
        "prediction_id",
    ]
    asked = [triton.InferRequestedOutput("y", binary_data=False)]
    only = parse_request(*sent({"x": np.zeros(1)}, binary=False, outputs=asked))
    check_outputs(only, every)
    assert [o["name"] for o in json.loads(encode_response("m", "1", only, every)[0])["outputs"]] == ["y"]
    odd = parse_request(
        *sent({"x": np.zeros(1)}, binary=False, outputs=[triton.InferRequestedOutput("z", binary_data=False)])
    )
    with pytest.raises(InvalidValue, match="'z'; allowed: one of y, prediction_id"):
        check_outputs(odd, every)


def test_nested_data_is_read_in_order() -> None:
    text = json.dumps({"inputs": [{"name": "x", "shape": [2, 2], "datatype": "INT64", "data": [[1, 2], [3, 4]]}]})
    assert parse_request(text.encode()).inputs["x"].tolist() == [[1, 2], [3, 4]]


def test_unknown_parameters_are_ignored() -> None:
    one = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1], "parameters": {"content_type": "np"}}
    assert (
        parse_request(json.dumps({"inputs": [one], "parameters": {"trace": 1}, "extra": []}).encode()).inputs["x"] == 1
    )


def one(**changes: Any) -> bytes:
    return json.dumps({"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]} | changes]}).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ["request", "an inference request"]),
        (b"{", ["request"]),
        (b"[]", ["request"]),
        (b'{"inputs": 3}', ["request"]),
        (one(shape=[3]), ["inputs.x.data", "2 values", "3, by its shape"]),
        (one(shape=[-1]), ["inputs.x.shape", "[-1]", "0 or more"]),
        (one(shape=[]), ["inputs.x.shape"]),
        (one(shape=[1] * 9), ["inputs.x.shape"]),
        (one(shape=[2**40, 2**40]), ["inputs.x.shape"]),
        (one(datatype="FP128"), ["inputs.x.datatype", "FP128", "FP32"]),
        (one(data=["a", "b"]), ["inputs.x.data", "'a'", "numbers of type FP32"]),
        (one(data=[True, False]), ["inputs.x.data", "True"]),
        (one(datatype="INT64", data=[None, 1]), ["inputs.x.data", "nothing"]),
        (one(data={"a": 1}), ["request"]),
        (one(datatype="INT8", data=[1, 300]), ["inputs.x.data", "300", "-128 to 127"]),
        (one(datatype="INT64", data=[1, 0.5]), ["inputs.x.data", "0.5"]),
        (one(datatype="UINT8", data=[1, -1]), ["inputs.x.data", "-1"]),
        (one(datatype="BYTES", data=[1, 2]), ["inputs.x.data", "1", "text"]),
        (one(parameters={"binary_data_size": 5}), ["inputs.x.binary_data_size", "5", "0 bytes left"]),
        (one(parameters={"binary_data_size": -1}), ["inputs.x.binary_data_size", "-1"]),
        (one() + b"x", ["request"]),
    ],
)
def test_errors_name_the_field(body: bytes, words: list[str]) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_request(body)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("length", ["x", "-1", "1e3", "99999999", "", "²"])
def test_an_invalid_length_header_is_refused(length: str) -> None:
    with pytest.raises(InvalidValue, match=JSON_LENGTH_HEADER):
        parse_request(one(), length)


@pytest.mark.parametrize(
    ("kind", "count", "raw"),
    [("FP32", 2, b"1234567"), ("BYTES", 2, b"\1\0\0\0a\5\0\0\0b"), ("BYTES", 1, b"\1\0"), ("BOOL", 1, b"\2")],
)
def test_bytes_that_do_not_fit_are_refused(kind: str, count: int, raw: bytes) -> None:
    size = {"binary_data_size": len(raw)}
    text = json.dumps({"inputs": [{"name": "x", "shape": [count], "datatype": kind, "parameters": size}]}).encode()
    with pytest.raises(InvalidValue, match=r"inputs\.x"):
        parse_request(text + raw, str(len(text)))
    with pytest.raises(InvalidValue):
        parse_request(text + raw + b"more", str(len(text)))


@given(st.binary(max_size=200), st.one_of(st.none(), st.integers(0, 300).map(str)))
def test_noise_is_refused(body: bytes, length: str | None) -> None:
    with pytest.raises(InvalidValue):
        parse_request(body, length)


LIMITS = RequestLimits(examples=5000, bytes=200_000, json=500_000)


def large(kind: str, data: str, *shape: int) -> bytes:
    text = json.dumps({"inputs": [{"name": "x", "shape": list(shape), "datatype": kind, "data": "DATA"}]})
    return text.replace('"DATA"', data).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (large("FP32", "[]", 5001, 0), ["inputs.x.shape", "5001 examples", "at most 5000 in one request"]),
        (large("INT64", f"[{'0,' * 99_999}0]", 1, 100_000), ["800000 bytes when decoded", "at most 200000"]),
        (large("BYTES", "[" + '"",' * 29_999 + '""]', 1, 30_000), ["bytes when decoded", "at most 200000"]),
        (large("FP32", "[0]", 1).replace(b'"x"', b'"%s"' % (b"x" * 70_000)), ["bytes beside the values"]),
    ],
)
def test_a_request_that_is_too_large_is_refused_before_its_values_are_read(body: bytes, words: list[str]) -> None:
    with pytest.raises(RequestTooLarge) as caught:
        parse_request(body, None, LIMITS)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs":[' + b",".join([b'{"name":"x"}'] * 5000) + b"]}",
        large("FP32", f"[{'0.5,' * 20_000}0.5]", 1),
        large("FP32", f"[{'[],' * 30_000}0.5]", 1),
        large("BYTES", f"[{'[],' * 100_000}" + '"a"]', 1),
        large("BYTES", "[" + '"a",' * 20_000 + '"a"]', 1),
        large("BYTES", '["' + "a" * 70_000 + '"]', 1),
        large("INT64", f"[{'9' * 200_000}]", 1),
        large("BYTES", '["a", 5]', 2),
        large("BYTES", '["\\ud800"]', 1),
    ],
    ids=[
        "objects",
        "numbers",
        "empty lists",
        "empty lists of texts",
        "texts",
        "a text",
        "digits",
        "mixed",
        "surrogate",
    ],
)
def test_more_than_the_shape_says_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidValue):
        parse_request(body, None, LIMITS)


@given(st.lists(st.integers(-(10**15), 10**15), max_size=40_000), st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_large_lists_are_read_in_steps_and_in_order(values: list[int], spaces: int) -> None:
    text = json.dumps(values, indent=spaces or None)
    steps = sum(1 for _ in parse_in_steps(large("INT64", text, len(values)), None, NO_LIMITS))
    assert steps >= len(text) // STEP_BYTES
    assert parse_request(large("INT64", text, len(values))).inputs["x"].tolist() == values


@given(st.lists(st.text(max_size=30), max_size=3000), st.booleans())
@settings(max_examples=20, deadline=None)
def test_texts_are_read_whatever_they_hold(values: list[str], nested: bool) -> None:
    sent = [[value] for value in values] if nested else values
    found = parse_request(large("BYTES", json.dumps(sent), len(values))).inputs["x"]
    assert found.tolist() == [value.encode() for value in values]


def test_what_a_request_says_is_checked_before_its_tensors_have_arrived() -> None:
    found: list[TensorHead] = []
    check_head(large("FP32", "[]", 5000, 4), LIMITS, found.extend)
    assert [(tensor.name, tensor.shape) for tensor in found] == [("x", [5000, 4])]
    with pytest.raises(RequestTooLarge, match=r"inputs\.x\.shape.*5001 examples"):
        check_head(large("FP32", "[]", 5001, 4), LIMITS, found.extend)
    assert read_json_length("500000", LIMITS) == 500_000
    with pytest.raises(RequestTooLarge, match=r"found 500001; allowed: at most 500000 bytes of JSON"):
        read_json_length("500001", LIMITS)


def test_inputs_of_a_large_request_are_checked_before_their_values_are_read() -> None:
    found: list[TensorHead] = []

    def refuse(tensors: Sequence[TensorHead]) -> None:
        found.extend(tensors)
        raise InvalidValue("inputs", "x", "others")

    with pytest.raises(InvalidValue, match="allowed: others"):
        next(parse_in_steps(large("FP32", "[" + "null," * 20_000 + "null]", 5000), None, LIMITS, refuse))
    assert [(tensor.name, tensor.size) for tensor in found] == [("x", 5000)]
