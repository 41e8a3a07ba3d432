"""What callers and other members can cost an edge: CPU, memory and time, for each limit.

A real edge runs in its own process. A caller sends it what it must refuse, the largest requests that it accepts, and
small requests beside a large one. CPU is that of the server process. How long the event loop is held is the time
between two turns of it, less the time that the process waited for a core, so that a busy machine does not count. The
rows about the journal are of a file with a million learned predictions, of which none is old, and then some are.
``limits_peers`` measures the port for peers.
"""

import asyncio
import contextlib
import ctypes
import gzip
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
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
from alphaedge.edge.store.journal import CLEAN_UP_ROWS, Journal
from alphaedge.edge.supervisor import LearnerCommand
from alphaedge.inference.client_codec import encode_request
from benchmarks import limits_peers
from benchmarks.common import arguments, report
from benchmarks.limits_peers import Row
from benchmarks.live import AGES, FEEDBACK, INFER, ITEMS, MODEL, NUMBERS, OCCUPATIONS, SECRET, USERS, ready, wait_for

REFUSED_CPU_MS: Final = 10.0
ACCEPTED_CPU_MS: Final = 100.0
READ_CPU_MS_PER_MB: Final = 5.0  # beside that, of a body that can be refused only after it was read
CPU_MS_PER_MB: Final = {"bytes": 600.0, "JSON": 150.0, "feedback": 500.0}  # beside that, of accepted bodies
MEMORY_RATIO: Final = 2.0
HOLD_MS: Final = 50.0
DELAY_MS: Final = 150.0  # of the slowest small request beside a large one
CLEAN_UP_MS: Final = 50.0
SERVE: Final = ServeConfig()
FEW: Final = {"port": 0, "max_requests_per_second": 5.0, "max_connections_per_address": 8}
LINE: Final = b"POST " + INFER.encode() + b" HTTP/1.1\r\nhost: edge\r\n"


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
    held = limits_peers.Held()
    watching: asyncio.Task[None] | None = None
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        answer: float = 0
        match command:
            case "cpu":
                answer = time.process_time()
            case "watch":
                held.longest, watching = 0.0, asyncio.create_task(held.watch())
            case "held":
                assert watching is not None
                watching.cancel()
                answer = held.longest
            case "reset":
                ctypes.CDLL(None).malloc_trim(0)  # or memory that was used before would be used again
                Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
                answer = limits_peers.memory("VmRSS")
            case "peak":
                answer = limits_peers.memory("VmHWM")
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


@final
class MeasuredEdge:
    """An edge in its own process, as a context manager. settings: of its port for callers."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir(parents=True)
        (folder / "secret").write_text(SECRET)
        config = {"edge": "berlin", "region": "DE", "secret": "secret", "model": MODEL, "serve": settings}
        (folder / "edge.toml").write_text(tomli_w.dumps(config))
        command = [sys.executable, "-m", "benchmarks.limits", "--serve", str(folder / "edge.toml")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[-1].removeprefix("http://")
        wait_for(lambda: ready(self.address), "the edge to be ready")

    def __enter__(self) -> "MeasuredEdge":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # it waits for the next command
        self._process.terminate()
        self._process.wait()

    def ask(self, command: str) -> float:
        """Give the server process a command; return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def cpu_ms(self, work: Callable[[], object], repeat: int) -> float:
        """CPU of the server process for one call of ``work``."""
        work()
        before = self.ask("cpu")
        for _ in range(repeat):
            work()
        return 1e3 * (self.ask("cpu") - before) / repeat

    def held_ms(self, work: Callable[[], object]) -> float:
        """The longest hold of the event loop; the shortest of three, since a stall of the machine is no hold."""
        found = []
        for _ in range(3):
            self.ask("watch")
            work()
            found.append(self.ask("held"))
        return 1e3 * min(found)

    def memory_ratio(self, work: Callable[[], object]) -> float:
        """The peak of memory over what there was before, in bodies of the largest size."""
        before = self.ask("reset")
        work()
        return (self.ask("peak") - before) / SERVE.max_body_bytes

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


def labels(count: int) -> bytes:
    """Feedback on predictions that were never made."""
    return json.dumps({"ids": list(range(10**9, 10**9 + count)), "labels": [1] * count}).encode()


Work = Callable[[], object]


def refusals(edge: MeasuredEdge) -> dict[str, Work]:
    """What must be refused."""
    most, many = SERVE.max_body_bytes, 5 * SERVE.max_examples
    length, bomb = b"content-length: %d\r\n\r\n" % (100 * most), gzip.compress(bytes(10 * most))
    binary, headers = encode_request(arrays(many))
    text = as_json(many)
    return {
        "a body that is too large, by its length": lambda: edge.say(413, LINE + length),
        "a body that is too large, sent": lambda: edge.send(413, INFER, bytes(most + 1)),
        "a gzip bomb of 100 MB": lambda: edge.send(413, INFER, bomb, {"Content-Encoding": "gzip"}),
        "an unknown coding": lambda: edge.send(415, INFER, b"x" * 1000, {"Content-Encoding": "br"}),
        f"{many} examples in bytes": lambda: edge.send(413, INFER, binary, headers),
        f"{many} examples in JSON": lambda: edge.send(413, INFER, text),
        f"{many} labels": lambda: edge.send(413, FEEDBACK, labels(many)),
        "a head that is too large": lambda: edge.say(431, LINE + b"x: " + b"y" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"),
        "too many headers": lambda: edge.say(431, LINE + b"x: y\r\n" * (MAX_HEADERS + 1) + b"\r\n"),
        "no HTTP": lambda: edge.say(400, bytes(range(256)) * 10),
        "an unknown path": lambda: edge.send(404, "/v2/models/other/infer", b"x"),
    }


def refused_late(edge: MeasuredEdge) -> Work:
    """A request that is as large as allowed, and says only at its end that it has too many examples."""
    values = b"0," * (SERVE.max_body_bytes // 2 - 60)
    body = (
        b'{"inputs":[{"name":"x","datatype":"INT64","data":[' + values + b'0],"shape":[%d]}]}' % (len(values) // 2 + 1)
    )
    return lambda: edge.send(413, INFER, body)


def accepted(edge: MeasuredEdge) -> dict[str, tuple[Work, float, float]]:
    """The largest requests that are accepted, with their megabytes and the limit of their CPU per megabyte."""
    most = SERVE.max_examples
    binary, headers = encode_request(arrays(most))
    text, told = as_json(most, text_length=150), labels(most)
    packed = gzip.compress(text, 1)
    coding = {"Content-Encoding": "gzip"}
    return {
        f"{most} examples in bytes": (
            lambda: edge.send(200, INFER, binary, headers), len(binary) / 1e6, CPU_MS_PER_MB["bytes"],
        ),
        f"{most} examples in JSON with texts": (
            lambda: edge.send(200, INFER, text), len(text) / 1e6, CPU_MS_PER_MB["JSON"],
        ),
        f"{most} examples in JSON, compressed": (
            lambda: edge.send(200, INFER, packed, coding), len(text) / 1e6, CPU_MS_PER_MB["JSON"],
        ),
        f"{most} labels": (lambda: edge.send(200, FEEDBACK, told), len(told) / 1e6, CPU_MS_PER_MB["feedback"]),
    }  # fmt: skip


# -- measurements --


def measure_caller(edge: MeasuredEdge, repeat: int) -> Iterator[Row]:
    """What one caller costs."""
    refused, taken = refusals(edge), accepted(edge)
    for name, work in refused.items():
        yield Row(f"refused: {name}", "ms of CPU", edge.cpu_ms(work, repeat), REFUSED_CPU_MS)
    late, megabytes = refused_late(edge), SERVE.max_body_bytes / 1e6
    cost = (edge.cpu_ms(late, repeat) - REFUSED_CPU_MS) / megabytes
    yield Row("refused: too many examples, told at the end", "ms of CPU per MB", max(0.0, cost), READ_CPU_MS_PER_MB)
    one = as_json(1)
    base = edge.cpu_ms(lambda: edge.send(200, INFER, one), 4 * repeat)
    yield Row("accepted: one example", "ms of CPU", base, ACCEPTED_CPU_MS)
    for name, (work, megabytes, limit) in taken.items():
        cost = (edge.cpu_ms(work, max(1, repeat // 5)) - ACCEPTED_CPU_MS) / megabytes
        yield Row(f"accepted: {name}", "ms of CPU per MB", max(0.0, cost), limit)
    works = {name: work for name, (work, _, _) in taken.items()}
    works |= {name: refused[name] for name in refused if "bomb" in name or "sent" in name}
    works["too many examples, told at the end"] = late
    for name, work in works.items():
        yield Row(f"memory: {name}", "times the cap", edge.memory_ratio(work), MEMORY_RATIO)
    for name, work in works.items():
        yield Row(f"event loop: {name}", "ms held", edge.held_ms(work), HOLD_MS)


def measure_limits(edge: MeasuredEdge, repeat: int) -> Iterator[Row]:
    """What an impatient caller costs, of an edge that allows little. It answers some requests in between."""
    statuses: list[int] = []

    def hurry(connection: http.client.HTTPConnection) -> None:
        connection.request("GET", "/v2")
        found = connection.getresponse()
        found.read()
        statuses.append(found.status)

    with contextlib.closing(edge.connect()) as connection:
        cost = edge.cpu_ms(lambda: hurry(connection), 20 * repeat)
    assert statuses.count(429) > 10 * repeat
    yield Row("refused: too many requests a second", "ms of CPU", cost, REFUSED_CPU_MS)
    with contextlib.ExitStack() as stack:
        for _ in range(int(FEW["max_connections_per_address"])):
            stack.enter_context(contextlib.closing(edge.connect())).connect()
        cost = edge.cpu_ms(lambda: edge.say(429, b""), 4 * repeat)
    yield Row("refused: too many connections of one address", "ms of CPU", cost, REFUSED_CPU_MS)


def measure_busy(edge: MeasuredEdge, repeat: int) -> Iterator[Row]:
    """What a large body costs when too many others are in memory."""
    head = LINE + b"content-length: %d\r\n\r\n" % SERVE.max_body_bytes
    with contextlib.ExitStack() as stack:
        for _ in range(CALLER_BODIES):
            slow = stack.enter_context(contextlib.closing(edge.connect()))
            slow.connect()
            slow.sock.sendall(head + b"{")
        time.sleep(0.2)  # until they have arrived; if one had not, the next lines would fail
        cost = edge.cpu_ms(lambda: edge.say(429, head), repeat)
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


def measure_journal(folder: Path, rows: int) -> Iterator[Row]:
    """How long steps of a clean-up take, beside many learned predictions that stay."""
    journal = Journal(folder / "journal.db")
    features, size = bytes(48), 50_000
    for start in range(0, rows, size):
        ids = journal.record_predictions([features] * size, [0.5] * size, now=float(start))
        journal.record_feedback([(i, 1.0) for i in ids], now=float(start))

    def step(before: float) -> tuple[float, int]:
        began = time.perf_counter()
        done = journal.clean_up(before, rows, negative=False, now=float(rows))
        return 1e3 * (time.perf_counter() - began), done.dropped

    while journal.clean_up(0.0, rows, negative=False, now=float(rows)).more:
        pass  # the mark of what was learned passes them once
    idle = statistics.median(step(0.0)[0] for _ in range(20))
    steps = [step(1.0) for _ in range(20)]
    assert sum(dropped for _, dropped in steps) == 20 * CLEAN_UP_ROWS
    journal.close()
    yield Row(f"clean-up of a journal of {rows} rows: nothing to remove", "ms", idle, CLEAN_UP_MS)
    name = f"clean-up of a journal of {rows} rows: {CLEAN_UP_ROWS} removed"
    yield Row(name, "ms", statistics.median(milliseconds for milliseconds, _ in steps), CLEAN_UP_MS)


def measure(quick: bool = False) -> list[Row]:
    """Measure the port for callers and the journal. quick: with few repetitions, and a small journal."""
    repeat, seconds = (2, 1.0) if quick else (10, 10.0)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="alphaedge-") as name:
        folder = Path(name)
        with MeasuredEdge(folder / "edge", port=0, max_requests_per_second=0.0) as edge:
            rows += measure_caller(edge, repeat)
            rows += measure_busy(edge, repeat)
            rows += measure_delay(edge, seconds)
        with MeasuredEdge(folder / "few", **FEW) as edge:
            rows += measure_limits(edge, repeat)
        rows += measure_journal(folder, 50_000 if quick else 1_000_000)
    return rows


def main() -> None:
    """Measure, print, write."""
    args = arguments(__doc__ or "", serve={"type": Path, "metavar": "CONFIG", "help": "only run an edge to measure"})
    if args.serve:
        serve(args.serve)
        return
    rows = measure(args.quick) + [row._replace(name=f"peers: {row.name}") for row in limits_peers.measure(args.quick)]
    table = [
        [row.name, row.unit, f"{row.value:.3g}", f"{row.limit:g}", "" if row.value <= row.limit else "over the limit"]
        for row in rows
    ]
    figures = {row.name: {"value": row.value, "unit": row.unit, "limit": row.limit} for row in rows}
    title = f"What an edge spends on its callers and peers; {os.cpu_count()} cores"
    report(title, ["request", "unit", "measured", "limit", ""], table, figures, args.json)


if __name__ == "__main__":
    main()
