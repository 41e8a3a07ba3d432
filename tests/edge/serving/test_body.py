"""Request bodies: compressed ones are decoded, too large ones are refused before they cost memory."""

import gzip
import http.client
import json
import os
import re
import socket
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaedge.inference.client_codec import encode_request
from alphaedge.inference.tensors import JSON_LENGTH_HEADER

from ..processes import Edge

INFER, FEEDBACK = "/v2/models/shop/infer", "/v2/models/shop/feedback"
MAX_BODY, MAX_JSON = 3_000_000, 1_000_000  # bytes
LARGE, VERY_LARGE = 10_000_000, 100_000_000
MARGIN = 15_000_000  # bytes that the server may need for other reasons


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    made = Edge(
        tmp_path_factory.mktemp("edge"), serve={"port": 0, "max_body_bytes": MAX_BODY, "max_json_bytes": MAX_JSON}
    )
    try:
        made.start()
        yield made
    finally:
        made.end()


FEEDBACK_BODY = json.dumps({"ids": [1], "labels": [1]}).encode()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "identity"])
def test_a_compressed_body_is_understood(edge: Edge, coding: str) -> None:
    body = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[coding.lower()](FEEDBACK_BODY)
    assert edge.post(FEEDBACK, body, **{"Content-Encoding": coding})["unknown"] == 1


PACKED = gzip.compress(FEEDBACK_BODY)
WRONG: dict[str, tuple[str, bytes, int, str]] = {
    "not compressed": ("gzip", FEEDBACK_BODY, 400, "a body compressed as gzip (Error -3"),
    "empty": ("gzip", b"", 400, "cut off"),
    "cut short": ("gzip", PACKED[:-1], 400, "cut off"),
    "altered": ("gzip", PACKED[:-8] + bytes(8), 400, "incorrect data check"),
    "more behind": ("gzip", PACKED + b"more", 400, "no bytes after the end"),
    "deflate, not gzip": ("gzip", zlib.compress(FEEDBACK_BODY), 400, "compressed as gzip"),
    "gzip, not deflate": ("deflate", PACKED, 400, "compressed as deflate"),
    "unknown": ("br", FEEDBACK_BODY, 415, "found 'br'; allowed: gzip, deflate"),
    "twice": ("gzip, gzip", gzip.compress(PACKED), 415, "allowed: gzip, deflate"),
    "large inside": ("gzip", gzip.compress(b" " * (MAX_JSON + 1)), 413, f"a compressed body of more than {MAX_JSON}"),
    "large outside": ("identity", b" " * (MAX_JSON + 1), 413, f"at most {MAX_JSON} (serve.max_json_bytes)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_body_is_refused_with_a_reason(edge: Edge, case: str) -> None:
    coding, body, status, words = WRONG[case]
    found = edge.post(FEEDBACK, body, **{"Content-Encoding": coding})
    assert found["status"] == status, found
    assert words in found["error"]


def test_a_body_of_the_largest_size_is_read(edge: Edge) -> None:
    body = FEEDBACK_BODY + b" " * (MAX_JSON - len(FEEDBACK_BODY))
    assert edge.post(FEEDBACK, body)["unknown"] == 1
    assert edge.post(FEEDBACK, gzip.compress(body), **{"Content-Encoding": "gzip"})["unknown"] == 1


def test_a_body_with_tensors_as_bytes_may_be_larger_than_json(edge: Edge) -> None:
    texts = np.array(["x" * 500 + str(i) for i in range(3000)])
    inputs = {"user": texts, "item": np.arange(3000), "x": np.zeros((3000, 2), np.float32)}
    body, headers = encode_request(inputs)
    assert MAX_JSON < len(body) < MAX_BODY
    with urllib.request.urlopen(urllib.request.Request(edge.url + INFER, body, headers), timeout=60) as answer:
        assert answer.status == 200
    found = edge.post(INFER, bytes(MAX_BODY + 1), **headers)
    assert found["status"] == 413
    assert f"found a body of more than {MAX_BODY} bytes; allowed: at most {MAX_BODY} (serve.max_b" in found["error"]
    found = edge.post(INFER, body, **headers | {JSON_LENGTH_HEADER: str(MAX_JSON + 1)})
    assert found["status"] == 413
    assert f"{JSON_LENGTH_HEADER}: found {MAX_JSON + 1}; allowed: at most {MAX_JSON} bytes of JSON" in found["error"]
    packed = edge.post(INFER, gzip.compress(body), **headers | {"Content-Encoding": "gzip"})
    assert packed["status"] == 413
    assert f"found a compressed body of more than {MAX_JSON} bytes" in packed["error"]


def test_inputs_that_the_model_does_not_have_are_refused_before_their_values_are_read(edge: Edge) -> None:
    # The values are wrong, too, but nobody looks at them.
    data = b"null," * (MAX_JSON // 6) + b"null"
    found = edge.post(INFER, b'{"inputs":[{"name":"other","datatype":"FP32","data":[' + data + b'],"shape":[1]}]}')
    assert found["status"] == 400
    assert found["error"] == "inputs: found 'other'; allowed: one of user, item, x"


@pytest.mark.parametrize(
    ("length", "status"), [(str(MAX_JSON + 1), 413), ("9" * 18, 413), ("-1", 400), ("1e3", 400), ("9" * 40, 400)]
)
def test_a_bad_length_is_refused_before_the_body_is_sent(edge: Edge, length: str, status: int) -> None:
    host, port = edge.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = f"POST {INFER} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


def peak_memory(edge: Edge) -> int:
    """Peak memory of the server, in bytes."""
    assert edge.process is not None
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{edge.process.pid}/status").read_text())
    return int(found) * 1024


def refused(edge: Edge, body: Any, **headers: str) -> None:
    connection = http.client.HTTPConnection(edge.url.removeprefix("http://"), timeout=60)
    connection.request("POST", INFER, body, headers)
    answer = connection.getresponse()
    assert answer.status == 413
    assert f"at most {MAX_JSON}" in json.load(answer)["error"]
    # The connection can be used for another request: the rest of the refused one was discarded.
    connection.request("POST", FEEDBACK, FEEDBACK_BODY)
    assert connection.getresponse().status == 200
    connection.close()


def test_a_refused_body_is_discarded_and_the_connection_can_be_used_again(edge: Edge) -> None:
    part = bytes(10**6)
    refused(edge, bytes(LARGE))
    refused(edge, iter([part] * (LARGE // len(part))))  # without a length: in chunks
    refused(edge, gzip.compress(bytes(LARGE), 9), **{"Content-Encoding": "gzip"})
    closing = edge.post(INFER, bytes(LARGE))  # urllib wants the connection closed, and reads only when all is sent
    assert closing["status"] == 413


def test_100_mb_do_not_make_the_server_grow(edge: Edge) -> None:
    edge.predict(["ann"], [1], [[0.0, 0.0]])
    refused(edge, bytes(2 * MAX_BODY))
    before = peak_memory(edge)
    part = bytes(10**6)
    many = VERY_LARGE // len(part)
    for body, headers in (
        (bytes(VERY_LARGE), {}),
        (bytes(VERY_LARGE), {"Connection": "close"}),
        (iter([part] * many), {}),
        (os.urandom(VERY_LARGE), {"Content-Encoding": "gzip"}),
    ):
        with pytest.raises(OSError):  # the server closes the connection amid such a body
            refused(edge, body, **headers)
    refused(edge, gzip.compress(bytes(VERY_LARGE), 9), **{"Content-Encoding": "gzip"})
    assert peak_memory(edge) - before < MARGIN
