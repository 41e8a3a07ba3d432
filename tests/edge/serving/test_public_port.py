"""The public port of a real edge under callers that ask for too much: they are refused, and others do not notice."""

import contextlib
import datetime as dt
import json
import os
import re
import resource
import socket
import sqlite3
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaedge.edge.serving.limits import CALLER_BODIES
from alphaedge.edge.serving.protocol import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PIPELINED
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.inference.client_codec import encode_request

from ..hostile import EdgeLog
from ..processes import Edge, wait_for
from .test_metrics import metrics, value

INFER, FEEDBACK = "/v2/models/shop/infer", "/v2/models/shop/feedback"
MAX_EXAMPLES, MAX_BODY, MAX_CONNECTIONS = 5000, 1_000_000, 20


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    serve = {
        "port": 0,
        "max_examples": MAX_EXAMPLES,
        "max_body_bytes": MAX_BODY,
        "max_json_bytes": MAX_BODY,
        "max_connections": MAX_CONNECTIONS,
    }
    made = Edge(tmp_path_factory.mktemp("edge"), serve=serve)
    try:
        made.start()
        yield made
    finally:
        made.end()


def connect(edge: Edge) -> socket.socket:
    host, port = edge.url.partition("://")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def say(edge: Edge, data: bytes) -> str:
    """Send bytes; return everything that the server answers until it hangs up."""
    answer = b""
    with connect(edge) as link, contextlib.suppress(ConnectionError):  # it may hang up before everything is sent
        with contextlib.suppress(ConnectionError):
            link.sendall(data)
        while part := link.recv(1 << 16):
            answer += part
    return answer.decode("latin-1")


def refused(edge: Edge, endpoint: str, reason: str) -> float:
    """How many requests the metrics count as refused for a reason."""
    return metrics(edge).get(
        ("alphaedge_refused_requests_total", frozenset({("endpoint", endpoint), ("reason", reason)})), 0.0
    )


def examples(count: int) -> dict[str, Any]:
    return {
        "user": np.arange(count, dtype=np.int64) % 400,
        "item": np.arange(count, dtype=np.int64) % 300,
        "x": np.linspace(-1, 1, 2 * count, dtype=np.float32).reshape(count, 2),
    }


def infer(edge: Edge, count: int, *, binary: bool) -> dict[str, Any]:
    if binary:
        body, headers = encode_request(examples(count))
        request = urllib.request.Request(edge.url + INFER, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                raw, end = answer.read(), int(answer.headers["inference-header-content-length"])
        except urllib.error.HTTPError as error:
            return {"status": error.code, **json.load(error)}
        sizes = [o["parameters"]["binary_data_size"] for o in json.loads(raw[:end])["outputs"]]
        assert end + sum(sizes) == len(raw)
        return {
            "prediction": np.frombuffer(raw[end : end + sizes[0]], np.float32).tolist(),
            "prediction_id": np.frombuffer(raw[end + sizes[0] :], np.int64).tolist(),
        }
    kinds = {"user": "INT64", "item": "INT64", "x": "FP32"}
    inputs = [
        {"name": name, "shape": array.shape, "datatype": kinds[name], "data": array.tolist()}
        for name, array in examples(count).items()
    ]
    answer = edge.post(INFER, {"inputs": inputs})
    return {o["name"]: o["data"] for o in answer["outputs"]} if "outputs" in answer else answer


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
def test_a_request_with_too_many_examples_is_refused_with_the_numbers(edge: Edge, binary: bool) -> None:
    before = value(metrics(edge), "alphaedge_predictions_total"), refused(edge, "infer", "size")
    found = infer(edge, MAX_EXAMPLES + 1, binary=binary)
    assert found["status"] == 413
    assert f"{MAX_EXAMPLES + 1} examples" in found["error"]
    assert f"at most {MAX_EXAMPLES}" in found["error"]
    assert value(metrics(edge), "alphaedge_predictions_total") == before[0], "nothing was predicted"
    assert refused(edge, "infer", "size") == before[1] + 1


def test_a_request_for_an_output_that_there_is_not_is_refused_before_anything_is_predicted(edge: Edge) -> None:
    before = value(metrics(edge), "alphaedge_predictions_total")
    inputs = [
        {"name": "user", "shape": [1], "datatype": "INT64", "data": [1]},
        {"name": "item", "shape": [1], "datatype": "INT64", "data": [1]},
        {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [0, 0]},
    ]
    found = edge.post(INFER, {"inputs": inputs, "outputs": [{"name": "prediction"}, {"name": "score"}]})
    assert (found["status"], found["error"]) == (
        400,
        "outputs: found 'score'; allowed: one of prediction, prediction_id",
    )
    assert value(metrics(edge), "alphaedge_predictions_total") == before


def test_feedback_with_too_many_labels_is_refused_with_the_numbers(edge: Edge) -> None:
    count = MAX_EXAMPLES + 1
    found = edge.post(FEEDBACK, {"ids": list(range(1, count + 1)), "labels": [1] * count})
    assert found["status"] == 413
    assert str(count) in found["error"]
    assert f"at most {MAX_EXAMPLES}" in found["error"]
    ids = list(range(10**9, 10**9 + MAX_EXAMPLES))
    assert edge.post(FEEDBACK, {"ids": ids, "labels": [1] * MAX_EXAMPLES})["unknown"] == MAX_EXAMPLES


def test_values_that_need_more_memory_than_a_body_are_refused(edge: Edge) -> None:
    body = b'{"inputs":[{"name":"user","shape":[1,400000],"datatype":"INT64","data":[' + b"0," * 399_999 + b"0]}]}"
    found = edge.post(INFER, body)
    assert found["status"] == 413
    assert "3200000 bytes when decoded" in found["error"]


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
def test_a_large_request_gives_what_small_ones_give_in_their_order(edge: Edge, binary: bool) -> None:
    large = infer(edge, MAX_EXAMPLES, binary=binary)
    assert len(set(large["prediction_id"])) == MAX_EXAMPLES
    assert large["prediction_id"] == sorted(large["prediction_id"])
    some = examples(MAX_EXAMPLES)
    for place in (0, 1, 2499, MAX_EXAMPLES - 1):
        one = edge.post(
            INFER,
            {
                "inputs": [
                    {"name": "user", "shape": [1], "datatype": "INT64", "data": [int(some["user"][place])]},
                    {"name": "item", "shape": [1], "datatype": "INT64", "data": [int(some["item"][place])]},
                    {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": some["x"][place].tolist()},
                ]
            },
        )
        assert one["outputs"][0]["data"] == [pytest.approx(large["prediction"][place], abs=1e-6)]


def test_a_small_request_is_answered_amid_a_large_one(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge")
    edge.start()
    found: list[dict[str, Any]] = []
    large = threading.Thread(target=lambda: found.append(infer(edge, 20_000, binary=True)))
    try:
        large.start()
        with contextlib.closing(sqlite3.connect(f"file:{edge.folder}/data/journal.db?mode=ro", uri=True)) as db:
            wait_for(lambda: db.execute("select count(*) from prediction").fetchone()[0] > 0, "the first chunk")
        _, (small,) = edge.predict(["ann"], [1], [[0.0, 0.0]])
        large.join()
    finally:
        edge.end()
    ids = found[0]["prediction_id"]
    assert ids[0] < small < ids[-1], "it was written between two chunks"
    assert sorted([*ids, small]) == list(range(1, 20_002)), "all of them are there, once"


def test_a_kill_amid_a_large_request_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge")
    edge.start()
    acknowledged = [infer(edge, 700, binary=True), infer(edge, 3, binary=True)]

    def send() -> None:
        with contextlib.suppress(OSError):
            acknowledged.append(infer(edge, 20_000, binary=True))

    large = threading.Thread(target=send)
    large.start()
    journal = edge.folder / "data" / "journal.db"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
            wait_for(lambda: db.execute("select count(*) from prediction").fetchone()[0] > 703, "the first chunk")
        edge.kill()
        large.join()
        with contextlib.closing(sqlite3.connect(journal)) as db:
            stored = dict(db.execute("select id, output from prediction"))
        for answer in acknowledged:
            assert [stored[i] for i in answer["prediction_id"]] == answer["prediction"]
        edge.start()
        _, (one,) = edge.predict(["ann"], [1], [[0.0, 0.0]])
        assert one == len(stored) + 1, "numbers are not given twice"
    finally:
        edge.end()


LINE = b"GET /v2 HTTP/1.1\r\nhost: x\r\n"
HEADS = {
    "one long header": LINE + b"x: " + b"y" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n",
    "one endless header": LINE + b"x: " + b"y" * 10**6,
    "many headers": LINE + b"x: y\r\n" * (MAX_HEADERS + 1) + b"\r\n",
    "many long headers": LINE + (b"x: %s\r\n" % (b"y" * 1000)) * 40 + b"\r\n",
    "a long path": b"GET /v2?" + b"y" * (MAX_HEAD_BYTES + 1) + b" HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("what", HEADS)
def test_a_head_that_is_too_large_is_refused(edge: Edge, what: str) -> None:
    before = refused(edge, "connection", "head")
    answer = say(edge, HEADS[what])
    assert re.match(r"HTTP/1.1 431 .*|$", answer), answer
    assert refused(edge, "connection", "head") == before + 1
    assert edge.ready()


def test_a_head_of_usual_size_is_read(edge: Edge) -> None:
    answer = say(edge, LINE + b"x: %b\r\n" % (b"y" * 8000) * 2 + b"connection: close\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200")


def test_requests_that_do_not_wait_for_answers_are_limited(edge: Edge) -> None:
    few = say(edge, (LINE + b"\r\n") * MAX_PIPELINED + LINE + b"connection: close\r\n\r\n")
    assert few.count("HTTP/1.1 200") == MAX_PIPELINED + 1
    many = say(edge, (LINE + b"\r\n") * 5000)
    assert many.count("HTTP/1.1 200") <= MAX_PIPELINED + 1
    assert edge.ready()


def test_an_unknown_coding_is_refused_before_the_body_is_read(edge: Edge) -> None:
    before = refused(edge, "infer", "encoding")
    head = f"POST {INFER} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\ncontent-encoding: zstd\r\n\r\n".encode()
    with connect(edge) as link:
        link.sendall(head)  # and no body
        assert link.recv(1000).startswith(b"HTTP/1.1 415")
    assert refused(edge, "infer", "encoding") == before + 1


def test_too_many_large_bodies_at_once_are_refused(edge: Edge) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nhost: x\r\ncontent-length: {MAX_BODY}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(edge)) for _ in range(CALLER_BODIES)]
        for link in slow:
            link.sendall(head + b"{")
        wait_for(lambda: say(edge, head).startswith("HTTP/1.1 429"), "the room to be taken")
        edge.predict(["ann"], [1], [[0.0, 0.0]])  # a small one needs no room
    wait_for(lambda: infer(edge, 100, binary=True).get("status") is None, "the room to be free again")
    assert refused(edge, "infer", "busy") >= 1


def test_callers_without_patience_are_told_when_to_come_back(tmp_path: Path, edge_log: EdgeLog) -> None:
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge" / "token").write_text("s3cret\n")
    edge = Edge(tmp_path / "edge", serve={"port": 0, "max_requests_per_second": 1.0, "token": "token"})
    token = {"Authorization": "Bearer s3cret"}

    def status(**headers: str) -> tuple[int, str | None]:
        try:
            with urllib.request.urlopen(urllib.request.Request(edge.url + "/v2", headers=headers)) as answer:
                return int(answer.status), None
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Retry-After"]

    with edge_log.capture():
        edge.start()
    try:
        wait_for(lambda: status()[0] == 429, "a refusal", 30)
        assert status() == (429, "1")
        assert status(**token) == (200, None), "whoever has the token is another caller"
        wait_for(lambda: status()[0] == 200, "the next second")
    finally:
        edge.stop()
    logged = edge_log.events(event="requests_refused", reason="rate")
    assert logged[0]["caller"] == "127.0.0.1"


def test_an_address_with_too_many_connections_is_refused_until_it_closes_some(tmp_path: Path) -> None:
    serve = {"port": 0, "max_connections": 30, "max_connections_per_address": 10}
    edge = Edge(tmp_path / "edge", serve=serve)
    edge.start()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(connect(edge))
            wait_for(lambda: say(edge, b"").startswith("HTTP/1.1 429"), "a refusal")
        wait_for(lambda: _ready(edge), "room for another connection")
        assert refused(edge, "connection", "connections") >= 1
    finally:
        edge.end()


def _ready(edge: Edge) -> bool:
    with contextlib.suppress(urllib.error.HTTPError):
        return edge.ready()
    return False


def test_connections_that_never_start_tls_do_not_keep_others_out(tmp_path: Path) -> None:
    authority, now = CertificateFolder(tmp_path), dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=10)
    authority.issue("berlin", "DE", ["127.0.0.1"], now=now, days=5)
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")

    class HttpsEdge(Edge):
        def get(self, path: str) -> dict[str, Any]:
            with urllib.request.urlopen(self.url + path, timeout=60, context=context) as answer:
                return dict(json.load(answer))

    serve = {"port": 0, "certificate": "berlin.pem", "key": "berlin.key", "max_connections_per_address": 40}
    edge = HttpsEdge(tmp_path, serve=serve)
    edge.start()
    try:
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(connect(edge)) for _ in range(60)]
            for link in silent[40:]:
                with contextlib.suppress(ConnectionError):
                    assert link.recv(1) == b"", "beyond the limit it is closed at once"
            wait_for(edge.ready, "the others to be closed, too, though nobody closes them here")
    finally:
        edge.end()


def test_an_edge_without_descriptors_serves_again_when_it_has_some(edge: Edge) -> None:
    assert edge.process is not None
    soft, hard = resource.prlimit(edge.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard, "it raised its own limit"
    used = len(os.listdir(f"/proc/{edge.process.pid}/fd"))
    resource.prlimit(edge.process.pid, resource.RLIMIT_NOFILE, (used, hard))
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connect(edge)) for _ in range(5)]
        waiting[0].sendall(LINE + b"connection: close\r\n\r\n")
        resource.prlimit(edge.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert waiting[0].recv(1000).startswith(b"HTTP/1.1 200"), "it waited in the queue"
    assert edge.ready()


def test_a_request_for_which_there_is_no_memory_is_refused_and_the_edge_goes_on(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge", serve={"port": 0, "max_body_bytes": 100_000_000, "max_json_bytes": 100_000_000})
    edge.start()
    assert edge.process is not None
    try:
        edge.predict(["ann"], [1], [[0.0, 0.0]])
        (size,) = re.findall(r"VmSize:\s+(\d+) kB", Path(f"/proc/{edge.process.pid}/status").read_text())
        most = int(size) * 1024 + 10_000_000
        resource.prlimit(edge.process.pid, resource.RLIMIT_AS, (most, most))
        found = edge.post(INFER, b" " * 16_000_000)
        assert found["status"] == 503
        assert "not enough memory" in found["error"]
        edge.predict(["ann"], [1], [[0.0, 0.0]])
        assert refused(edge, "infer", "memory") == 1
    finally:
        edge.end()
