"""A load generator: one light process that sends HTTP requests and measures their latencies.

Open loop (with ``rate``): requests leave on a schedule, whether or not earlier ones were answered, and latency counts
from the scheduled time. So a server that stalls is charged for all requests during the stall, not only for the one that
was being answered. Closed loop (no ``rate``): each connection sends its next request when it has an answer.

``python -m benchmarks.load`` reads a ``Load`` from standard input; ``send`` runs that from a benchmark.
"""

import asyncio
import random
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast, final

import msgspec

HEAD_END = b"\r\n\r\n"
LAST_ANSWERS_SECONDS = 10.0  # for the last answers to arrive


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to send. bodies: of predictions, in turn. feedback: path for the labels of predictions, if any."""

    address: str
    path: str
    bodies: list[str]
    connections: int
    seconds: float
    warm_up: float = 0.0  # seconds that a closed loop does not measure
    rate: float | None = None
    feedback: str | None = None


class LoadResult(msgspec.Struct, kw_only=True):
    """Measurements of a load. began: by ``time.monotonic``. latencies: in seconds, in the order of the schedule."""

    began: float = 0.0
    seconds: float = 0.0
    latencies: list[float | None] = []  # None: no answer with status 200
    late: list[float] = []  # how long after its scheduled time each was sent
    feedback: list[float] = []
    failed: int = 0
    answered: int = 0


def send(load: Load) -> LoadResult:
    """Run a load in a process of its own, so that the benchmark does not slow it down."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"], input=msgspec.json.encode(load), stdout=subprocess.PIPE, check=True
    )
    return msgspec.json.decode(done.stdout, type=LoadResult)


@final
class _Connection(asyncio.Protocol):
    """One connection, with one request at a time; ``on_answer`` gets the status (0: none) and the body."""

    def __init__(self) -> None:
        self._on_answer: Callable[[int, bytes], None] | None = None
        self._read = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, on_answer: Callable[[int, bytes], None]) -> None:
        """Send a request."""
        self._on_answer = on_answer
        assert self._transport is not None
        if self._transport.is_closing():
            self._report(0, b"")
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Collect data until the answer is complete."""
        self._read += data
        end = self._read.find(HEAD_END)
        if end < 0:
            return
        head = self._read[:end].lower()
        at = head.find(b"content-length:")
        size = int(head[at + 15 :].split(b"\r\n", 1)[0])
        start = end + len(HEAD_END)
        if len(self._read) >= start + size:
            status, body, self._read = int(head[9:12]), self._read[start : start + size], self._read[start + size :]
            self._report(status, body)

    def connection_lost(self, error: Exception | None) -> None:
        """Report that there is no answer."""
        self._report(0, b"")

    def _report(self, status: int, body: bytes) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(status, body)


def _request(load: Load, path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {load.address}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _connect(load: Load) -> list[_Connection]:
    host, _, port = load.address.rpartition(":")
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(_Connection, host, int(port)))[1] for _ in range(load.connections)]


async def _closed_loop(load: Load) -> LoadResult:
    connections = await _connect(load)
    requests = [_request(load, load.path, body.encode()) for body in load.bodies]
    result, sent, open_ = LoadResult(began=time.monotonic()), 0, len(connections)
    start, end = result.began + load.warm_up, result.began + load.warm_up + load.seconds
    over = asyncio.get_running_loop().create_future()

    def send_next(connection: _Connection) -> None:
        nonlocal sent, open_
        now = time.monotonic()
        if now >= end:
            open_ -= 1
            if not open_:
                over.set_result(None)
            return
        request, sent = requests[sent % len(requests)], sent + 1

        def on_answer(status: int, _: bytes) -> None:
            then = time.monotonic()
            if status != 200:
                result.failed += 1
            elif start <= then < end:
                result.answered += 1
                result.latencies.append(then - now)
            send_next(connection)

        connection.send(request, on_answer)

    for connection in connections:
        send_next(connection)
    await asyncio.wait_for(over, load.warm_up + load.seconds + LAST_ANSWERS_SECONDS)
    result.seconds = load.seconds
    return result


async def _open_loop(load: Load, rate: float) -> LoadResult:
    free, loop = deque(await _connect(load)), asyncio.get_running_loop()
    requests = [_request(load, load.path, body.encode()) for body in load.bodies]
    count, rng = int(load.seconds * rate), random.Random(0)
    result = LoadResult(began=loop.time() + 0.1, seconds=load.seconds, latencies=[None] * count)
    waiting: deque[tuple[bytes, Callable[[int, bytes], None]]] = deque()
    unlabelled: deque[list[int]] = deque()  # ids of predictions whose labels are still to be sent
    left = count * (1 if load.feedback is None else 2)
    over = loop.create_future()

    def send_waiting() -> None:
        while free and waiting:
            connection, (request, on_answer) = free.popleft(), waiting.popleft()

            def done(
                status: int,
                body: bytes,
                connection: _Connection = connection,
                on_answer: Callable[[int, bytes], None] = on_answer,
            ) -> None:
                nonlocal left
                on_answer(status, body)
                free.append(connection)
                left -= 1
                result.failed += status != 200
                if not left and not over.done():
                    over.set_result(None)
                send_waiting()

            connection.send(request, done)

    def predict(number: int) -> None:
        moment = result.began + number / rate
        result.late.append(loop.time() - moment)

        def on_answer(status: int, body: bytes) -> None:
            if status == 200:
                result.latencies[number] = loop.time() - moment
                result.answered += 1
                if load.feedback is not None:
                    outputs: list[dict[str, Any]] = msgspec.json.decode(body)["outputs"]
                    unlabelled.append(next(o["data"] for o in outputs if o["name"] == "prediction_id"))

        waiting.append((requests[number % len(requests)], on_answer))
        send_waiting()
        if number + 1 < count:
            loop.call_at(result.began + (number + 1) / rate, predict, number + 1)

    def send_feedback(number: int) -> None:
        """Send the labels of the oldest prediction halfway between two predictions; later if none is answered yet."""
        if not unlabelled and loop.time() < result.began + load.seconds + LAST_ANSWERS_SECONDS:
            loop.call_later(0.5 / rate, send_feedback, number)
            return
        assert load.feedback is not None
        ids, moment = unlabelled.popleft() if unlabelled else [], loop.time()
        body = msgspec.json.encode({"ids": ids, "labels": [float(rng.random() < 0.3) for _ in ids]})
        waiting.append((_request(load, load.feedback, body), lambda *_: result.feedback.append(loop.time() - moment)))
        send_waiting()
        if number + 1 < count:
            loop.call_at(max(result.began + (number + 1.5) / rate, loop.time()), send_feedback, number + 1)

    loop.call_at(result.began, predict, 0)
    if load.feedback is not None:
        loop.call_at(result.began + 0.5 / rate, send_feedback, 0)
    await asyncio.wait_for(over, load.seconds + 2 * LAST_ANSWERS_SECONDS)
    return result


def main() -> None:
    """Read a load from standard input, run it, and write its result to standard output."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    if load.rate is None:
        import uvloop  # only where throughput counts

        result = uvloop.run(_closed_loop(load))
    else:
        # select() wakes on time; epoll, which is the default, rounds to whole milliseconds.
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
            result = runner.run(_open_loop(load, load.rate))
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
