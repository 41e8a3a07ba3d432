"""What the client encodes the server parses, and what the server encodes the client decodes."""

import numpy as np
import pytest
import torch

from alphaedge import InvalidValue
from alphaedge.inference.client_codec import decode_response, encode_request
from alphaedge.inference.server_codec import encode_response, parse_request
from alphaedge.inference.tensors import JSON_LENGTH_HEADER


def test_the_server_parses_requests_and_the_client_decodes_answers() -> None:
    inputs = {
        "user": np.array(["ann", "b\u00f6b"]),
        "item": torch.tensor([7, 2**40]),
        "seen": np.array([True, False]),
        "x": torch.tensor([[0.5, -1.0], [2.0, 3.0]]),
    }
    body, headers = encode_request(inputs)
    call = parse_request(body, headers[JSON_LENGTH_HEADER])
    assert call.inputs["user"].tolist() == [b"ann", "b\u00f6b".encode()]
    for name in ("item", "seen", "x"):
        assert np.array_equal(call.inputs[name], np.asarray(inputs[name]))
    outputs = {"prediction": np.array([0.1, 0.2], np.float32), "prediction_id": np.array([5, 2**62])}
    raw, answered = encode_response("shop", "1", call, outputs)
    found = decode_response(raw, answered[JSON_LENGTH_HEADER])
    assert all(np.array_equal(found[name], outputs[name]) for name in outputs)


def test_an_id_that_is_missing_is_the_empty_text_as_null_is_in_json() -> None:
    for values in (
        ["ann", None],
        ["ann", float("nan")],
        np.array(["ann", None]),
        np.array(["ann", np.nan], dtype=object),
    ):
        body, headers = encode_request({"user": values})
        assert parse_request(body, headers[JSON_LENGTH_HEADER]).inputs["user"].tolist() == [b"ann", b""]
    plain = b'{"inputs": [{"name": "user", "shape": [2], "datatype": "BYTES", "data": ["ann", null]}]}'
    assert parse_request(plain).inputs["user"].tolist() == [b"ann", b""]


def test_an_answer_in_plain_json_is_decoded_too() -> None:
    call = parse_request(b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}]}')
    raw, _ = encode_response(
        "shop", "1", call, {"prediction": np.array([0.5], np.float32), "prediction_id": np.array([3])}
    )
    found = decode_response(raw, None)
    assert (found["prediction"].tolist(), found["prediction_id"].tolist()) == ([0.5], [3])


def test_a_type_that_the_protocol_lacks_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"^inputs.x: found 'complex128'; allowed: text, or one of "):
        encode_request({"x": np.zeros(1, dtype=complex)})
