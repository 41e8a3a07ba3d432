"""Request bodies: compressed ones are decoded, too large ones are refused before they cost memory."""

import gzip
import http.client
import json
import os
import re
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..processes import Edge

INFER, FEEDBACK = "/v2/models/shop/infer", "/v2/models/shop/feedback"
MAX_BODY = 1_000_000  # bytes
LARGE, VERY_LARGE = 10_000_000, 100_000_000
MARGIN = 15_000_000  # bytes that the server may need for other reasons


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    made = Edge(tmp_path_factory.mktemp("edge"), serve={"port": 0, "max_body_bytes": MAX_BODY})
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
    "large inside": ("gzip", gzip.compress(b" " * (MAX_BODY + 1)), 413, f"at most {MAX_BODY}"),
    "large outside": ("identity", b" " * (MAX_BODY + 1), 413, f"at most {MAX_BODY}"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_body_is_refused_with_a_reason(edge: Edge, case: str) -> None:
    coding, body, status, words = WRONG[case]
    found = edge.post(FEEDBACK, body, **{"Content-Encoding": coding})
    assert found["status"] == status, found
    assert words in found["error"]


def test_a_body_that_is_compressed_too_well_is_refused_after_its_first_megabyte(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge")  # which may read ten
    edge.start()
    try:
        found = edge.post(FEEDBACK, gzip.compress(FEEDBACK_BODY + b" " * 9_000_000), **{"Content-Encoding": "gzip"})
        assert found["status"] == 413
        assert "allowed: 100 times as many" in found["error"]
        honest = FEEDBACK_BODY + bytes(os.urandom(1)[0] % 2 + 9 for _ in range(2_000_000))  # tabs and line ends
        assert len(honest) / len(gzip.compress(honest)) > 5
        assert edge.post(FEEDBACK, gzip.compress(honest), **{"Content-Encoding": "gzip"})["unknown"] == 1
    finally:
        edge.end()


def test_a_body_of_the_largest_size_is_read(edge: Edge) -> None:
    body = FEEDBACK_BODY + b" " * (MAX_BODY - len(FEEDBACK_BODY))
    assert edge.post(FEEDBACK, body)["unknown"] == 1
    assert edge.post(FEEDBACK, gzip.compress(body), **{"Content-Encoding": "gzip"})["unknown"] == 1


@pytest.mark.parametrize(
    ("length", "status"), [(str(MAX_BODY + 1), 413), ("9" * 18, 413), ("-1", 400), ("1e3", 400), ("9" * 40, 400)]
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
    assert f"at most {MAX_BODY}" in json.load(answer)["error"]
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
