"""What one caller can cost an edge over its public port.

A real edge runs in its own process. A caller sends it what it must refuse, the largest requests that it accepts, and
small requests beside a large one.
"""

import asyncio
import contextlib
import gzip
import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import tomli_w
import uvicorn

from alphaedge.edge import server_process
from alphaedge.edge.config import ServeConfig
from alphaedge.edge.serving.limits import CALLER_BODIES
from alphaedge.edge.serving.protocol import MAX_HEAD_BYTES, MAX_HEADERS
from alphaedge.edge.supervisor import LearnerCommand
from alphaedge.inference.client_codec import encode_request
from benchmarks.limit_cases.measured import (
    ACCEPTED_CPU_MS,
    REFUSED_CPU_MS,
    Accepted,
    MeasuredProcess,
    Probe,
    Row,
    Work,
)
from benchmarks.live import AGES, FEEDBACK, INFER, ITEMS, MODEL, NUMBERS, OCCUPATIONS, SECRET, USERS, ready, wait_for

CPU_MS_PER_MB: Final = {"bytes": 600.0, "numbers": 600.0, "texts": 150.0, "labels": 500.0}  # of accepted bodies
DELAY_MS: Final = 150.0  # of the slowest small request beside a large one
SERVE: Final = ServeConfig()
FEW: Final = {"port": 0, "max_requests_per_second": 5.0, "max_connections_per_address": 8}
LINE: Final = b"POST " + INFER.encode() + b" HTTP/1.1\r\nhost: edge\r\n"
GZIP: Final = {"Content-Encoding": "gzip"}
TEXT_LENGTH: Final = 150


# -- the server process --


def serve(path: Path) -> None:
    """Run an edge that answers questions about its own process on standard input."""
    serving = server_process._serve

    async def serve_and_answer(server: uvicorn.Server, command: LearnerCommand) -> None:
        answering = asyncio.create_task(_answer())
        await serving(server, command)
        answering.cancel()

    server_process._serve = serve_and_answer
    server_process.run(path, style="json", insecure=False)


async def _answer() -> None:
    probe = Probe()
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        sys.stdout.write(f"{probe.answer(command)}\n")
        sys.stdout.flush()


@final
class MeasuredEdge:
    """An edge in its own process, as a context manager. settings: of its port for callers."""

    def __init__(self, folder: Path, repeat: int, **settings: Any) -> None:
        folder.mkdir(parents=True)
        (folder / "secret").write_text(SECRET)
        config = {"edge": "berlin", "region": "DE", "secret": "secret", "model": MODEL, "serve": settings}
        (folder / "edge.toml").write_text(tomli_w.dumps(config))
        command = [sys.executable, "-m", "benchmarks.limit_cases.callers", str(folder / "edge.toml")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[-1].removeprefix("http://")
        wait_for(lambda: ready(self.address), "the edge to be ready")
        self.process = MeasuredProcess(self._ask, repeat)

    def __enter__(self) -> "MeasuredEdge":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # it waits for the next command
        self._process.terminate()
        self._process.wait()

    def _ask(self, command: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def connect(self) -> http.client.HTTPConnection:
        """Make a connection."""
        return http.client.HTTPConnection(self.address, timeout=120)

    def send(self, status: int, path: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
        """Send a request over a new connection, which must be answered with ``status``."""
        connection = self.connect()
        with contextlib.suppress(ConnectionError):
            connection.request("POST", path, body, headers or {})
        found = connection.getresponse()
        answer = found.read()
        connection.close()
        assert found.status == status, f"{found.status}, not {status}: {answer[:200]!r}"
        return answer

    def say(self, status: int, data: bytes) -> None:
        """Send bytes over a new connection, which must be answered with ``status``."""
        connection = self.connect()
        connection.connect()
        with contextlib.suppress(ConnectionError):
            connection.sock.sendall(data)
        answer = connection.sock.recv(4096)
        connection.close()
        assert answer.split()[1] == str(status).encode(), f"{answer!r}, not {status}"


# -- requests --


def arrays(count: int) -> dict[str, Any]:
    """Examples, as a client has them."""
    rng = np.random.default_rng(0)
    return {
        "user": rng.integers(USERS, size=count),
        "item": rng.integers(ITEMS, size=count),
        "occupation": rng.integers(OCCUPATIONS, size=count),
        "age": rng.integers(AGES, size=count),
        "numbers": rng.standard_normal((count, NUMBERS)).astype(np.float32),
    }


def as_json(count: int, text_length: int = 0) -> bytes:
    """A request with ``count`` examples in JSON; with texts as ids if they have a length."""
    inputs = []
    for name, array in arrays(count).items():
        kind, values = ("FP32" if name == "numbers" else "INT64"), array.ravel().tolist()
        if text_length and name in ("user", "item"):
            kind, values = "BYTES", [str(value).rjust(text_length, "x") for value in values]
        inputs.append({"name": name, "shape": list(array.shape), "datatype": kind, "data": values})
    return json.dumps({"inputs": inputs}).encode()


def largest(make: Callable[[int], bytes]) -> bytes:
    """The largest JSON of a kind that is accepted."""
    sample = 1000
    return make(int(0.99 * sample * SERVE.max_json_bytes / len(make(sample))))


def labels(count: int) -> bytes:
    """Feedback on predictions that were never made."""
    return json.dumps({"ids": list(range(10**9, 10**9 + count)), "labels": [1] * count}).encode()


def told_at_the_end(shape: str, values: bytes = b"") -> bytes:
    """JSON as large as allowed that says what it is about only at its end. values: instead of zeros."""
    start, end = b'{"inputs":[{"name":"user","datatype":"INT64","data":[', b'0],"shape":%b}]}' % shape.encode()
    room = SERVE.max_json_bytes - len(start) - len(end)
    filled = (values or b"0," * (room // 2))[:room]
    return start + filled[: filled.rfind(b",") + 1] + end


def refusals(edge: MeasuredEdge) -> dict[str, Work]:
    """What must be refused."""
    most, many = SERVE.max_body_bytes, 5 * SERVE.max_examples
    length = b"content-length: %d\r\n\r\n" % (100 * most)
    binary, headers = encode_request(arrays(many))
    other, other_headers = encode_request({"other": np.zeros((SERVE.max_examples, 120), np.float32)})
    rng = random.Random(0)
    digits = b"".join(b"%d," % rng.randrange(10**6) for _ in range(SERVE.max_json_bytes // 6))
    late, packed = told_at_the_end(f"[{many}]"), gzip.compress(told_at_the_end(f"[{many}]", digits), 9)
    bomb, big = gzip.compress(bytes(10 * most)), gzip.compress((digits * 2)[: 7 * SERVE.max_json_bytes // 4], 9)
    right = largest(as_json)
    wrong = right[: right.rfind(b",")] + b",null]}]}"
    head = LINE + b"x: " + b"y" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"
    return {
        "a body that is too large, by its length": lambda: edge.say(413, LINE + length),
        "a body that is too large, sent": lambda: edge.send(413, INFER, bytes(most + 1)),
        "a gzip bomb of 100 MB": lambda: edge.send(413, INFER, bomb, GZIP),
        "a compressed body that is too large": lambda: edge.send(413, INFER, big, GZIP),
        "an unknown coding": lambda: edge.send(415, INFER, b"x" * 1000, {"Content-Encoding": "br"}),
        f"{many} examples in bytes": lambda: edge.send(413, INFER, binary, headers),
        f"{many} examples in JSON, told at its end": lambda: edge.send(413, INFER, late),
        f"{many} examples in JSON, compressed, told at its end": lambda: edge.send(413, INFER, packed, GZIP),
        f"{len(other) / 1e6:.0f} MB that the model does not take": lambda: edge.send(400, INFER, other, other_headers),
        "JSON that the model does not take": lambda: edge.send(400, INFER, told_at_the_end("[20000]")),
        "JSON that is cut off": lambda: edge.send(400, INFER, late[:-1]),
        "JSON whose last value is wrong": lambda: edge.send(400, INFER, wrong),
        f"{many} labels": lambda: edge.send(413, FEEDBACK, labels(many)),
        f"{2 * SERVE.max_examples} labels": lambda: edge.send(413, FEEDBACK, labels(2 * SERVE.max_examples)),
        "a head that is too large": lambda: edge.say(431, head),
        "too many headers": lambda: edge.say(431, LINE + b"x: y\r\n" * (MAX_HEADERS + 1) + b"\r\n"),
        "no HTTP": lambda: edge.say(400, bytes(range(256)) * 10),
        "an unknown path": lambda: edge.send(404, "/v2/models/other/infer", b"x"),
    }


def accepted(edge: MeasuredEdge) -> dict[str, Accepted]:
    """The largest requests that are accepted."""
    most = SERVE.max_examples
    binary, headers = encode_request(arrays(most))
    numbers, texts = largest(as_json), largest(lambda count: as_json(count, TEXT_LENGTH))
    told, packed = labels(most), gzip.compress(numbers, 1)

    def entry(kind: str, size: int, path: str, body: bytes, headers: dict[str, str] | None = None) -> Accepted:
        return Accepted(lambda: edge.send(200, path, body, headers), size / 1e6, CPU_MS_PER_MB[kind])

    return {
        f"{most} examples in bytes": entry("bytes", len(binary), INFER, binary, headers),
        "JSON with numbers": entry("numbers", len(numbers), INFER, numbers),
        "JSON with numbers, compressed": entry("numbers", len(numbers), INFER, packed, GZIP),
        "JSON with texts": entry("texts", len(texts), INFER, texts),
        f"{most} labels": entry("labels", len(told), FEEDBACK, told),
    }


# -- measurements --


def measure_requests(edge: MeasuredEdge) -> Iterator[Row]:
    """What one caller costs."""
    process, refused, taken = edge.process, refusals(edge), accepted(edge)
    yield from process.refused(refused)
    one = as_json(1)
    base = process.cpu_ms(lambda: edge.send(200, INFER, one), 4 * process.repeat)
    yield Row("accepted: one example", "ms of CPU", base, ACCEPTED_CPU_MS)
    yield from process.accepted(taken)
    works = {name: one.work for name, one in taken.items()}
    works |= {name: refused[name] for name in refused if any(word in name for word in ("bomb", "sent", "end", "take"))}
    yield from process.memory(works, SERVE.max_body_bytes)
    yield from process.held(works)


def measure_limits(edge: MeasuredEdge) -> Iterator[Row]:
    """What an impatient caller costs, of an edge that allows little. It answers some requests in between."""
    statuses: list[int] = []
    repeat = edge.process.repeat

    def hurry(connection: http.client.HTTPConnection) -> None:
        connection.request("GET", "/v2")
        found = connection.getresponse()
        found.read()
        statuses.append(found.status)

    with contextlib.closing(edge.connect()) as connection:
        cost = edge.process.cpu_ms(lambda: hurry(connection), 20 * repeat)
    assert statuses.count(429) > 10 * repeat
    yield Row("refused: too many requests a second", "ms of CPU", cost, REFUSED_CPU_MS)
    with contextlib.ExitStack() as stack:
        for _ in range(int(FEW["max_connections_per_address"])):
            stack.enter_context(contextlib.closing(edge.connect())).connect()
        cost = edge.process.cpu_ms(lambda: edge.say(429, b""), 4 * repeat)
    yield Row("refused: too many connections of one address", "ms of CPU", cost, REFUSED_CPU_MS)


def measure_busy(edge: MeasuredEdge) -> Iterator[Row]:
    """What a large body costs when too many others are in memory."""
    size = b"content-length: %d\r\ninference-header-content-length: 100\r\n\r\n" % SERVE.max_body_bytes
    with contextlib.ExitStack() as stack:
        for _ in range(CALLER_BODIES):
            slow = stack.enter_context(contextlib.closing(edge.connect()))
            slow.connect()
            slow.sock.sendall(LINE + size + b"{")
        time.sleep(0.2)  # until they have arrived; if one had not, the next lines would fail
        cost = edge.process.cpu_ms(lambda: edge.say(429, LINE + size))
    yield Row("refused: too many large bodies at once", "ms of CPU", cost, REFUSED_CPU_MS)


def measure_delay(edge: MeasuredEdge, seconds: float) -> Iterator[Row]:
    """How long small requests take beside large ones, of which one is always under way."""
    binary, headers = encode_request(arrays(SERVE.max_examples))
    small, over = as_json(4), threading.Event()

    def send_large() -> None:
        while not over.is_set():
            edge.send(200, INFER, binary, headers)

    def send_small() -> list[float]:
        found, end = [], time.monotonic() + seconds
        with contextlib.closing(edge.connect()) as connection:
            while time.monotonic() < end:
                began = time.monotonic()
                connection.request("POST", INFER, small)
                connection.getresponse().read()
                found.append(1e3 * (time.monotonic() - began))
                time.sleep(0.01)
        return found

    alone = send_small()
    large = threading.Thread(target=send_large)
    large.start()
    beside = send_small()
    over.set()
    large.join()
    yield Row("a small request alone, median", "ms", statistics.median(alone), DELAY_MS)
    name = f"a small request beside one of {SERVE.max_examples} examples"
    yield Row(f"{name}, median", "ms", statistics.median(beside), DELAY_MS)
    yield Row(f"{name}, 99th percentile", "ms", float(np.percentile(beside, 99)), DELAY_MS)


def measure(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Measure the port for callers. quick: with few repetitions."""
    repeat, seconds = (3, 1.0) if quick else (15, 10.0)
    with MeasuredEdge(folder / "edge", repeat, port=0, max_requests_per_second=0.0) as edge:
        yield from measure_requests(edge)
        yield from measure_busy(edge)
        yield from measure_delay(edge, seconds)
    with MeasuredEdge(folder / "few", repeat, **FEW) as edge:
        yield from measure_limits(edge)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
