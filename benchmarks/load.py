"""A load generator: one light process that sends HTTP requests and says how long each took.

Open loop (``rate`` given): requests leave on a schedule, whether or not earlier ones were answered, and latency counts
from the scheduled moment. So a server that stalls is charged for everybody who came during the stall, not only for the
one request that was under way. Closed loop (no ``rate``): each connection sends its next request when it has an answer.

Run as ``python -m benchmarks.load`` it reads what to do from standard input; ``send`` does that from a benchmark.
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
LAST_WAIT = 10.0  # seconds that the last answers may take


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What to send where. bodies: of predictions, in turn. feedback: where outcomes of the answers go, if anywhere."""

    address: str
    path: str
    bodies: list[str]
    connections: int
    seconds: float
    warm_up: float = 0.0  # seconds that a closed loop does not count
    rate: float | None = None
    feedback: str | None = None


class Found(msgspec.Struct, kw_only=True):
    """What came of it. Times are of ``time.monotonic``, latencies in seconds in the order of the schedule."""

    began: float = 0.0
    seconds: float = 0.0
    latencies: list[float | None] = []  # None: no good answer
    late: list[float] = []  # how long after its moment the generator sent each
    feedback: list[float] = []
    failed: int = 0
    answered: int = 0


def send(load: Load) -> Found:
    """Run the load in a process of its own, so that nothing here slows it down."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"], input=msgspec.json.encode(load), stdout=subprocess.PIPE, check=True
    )
    return msgspec.json.decode(done.stdout, type=Found)


@final
class _Connection(asyncio.Protocol):
    """One connection, one request at a time; ``told`` gets the status (0: none) and the body."""

    def __init__(self) -> None:
        self._told: Callable[[int, bytes], None] | None = None
        self._read = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, request: bytes, told: Callable[[int, bytes], None]) -> None:
        """Send a request."""
        self._told = told
        assert self._transport is not None
        if self._transport.is_closing():
            self._tell(0, b"")
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
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
            self._tell(status, body)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio."""
        self._tell(0, b"")

    def _tell(self, status: int, body: bytes) -> None:
        told, self._told = self._told, None
        if told is not None:
            told(status, body)


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


async def _closed(load: Load) -> Found:
    connections = await _connect(load)
    requests = [_request(load, load.path, body.encode()) for body in load.bodies]
    found, sent, open_ = Found(began=time.monotonic()), 0, len(connections)
    start, end = found.began + load.warm_up, found.began + load.warm_up + load.seconds
    over = asyncio.get_running_loop().create_future()

    def next_(connection: _Connection) -> None:
        nonlocal sent, open_
        now = time.monotonic()
        if now >= end:
            open_ -= 1
            if not open_:
                over.set_result(None)
            return
        request, sent = requests[sent % len(requests)], sent + 1

        def told(status: int, _: bytes) -> None:
            then = time.monotonic()
            if status != 200:
                found.failed += 1
            elif start <= then < end:
                found.answered += 1
                found.latencies.append(then - now)
            next_(connection)

        connection.ask(request, told)

    for connection in connections:
        next_(connection)
    await asyncio.wait_for(over, load.warm_up + load.seconds + LAST_WAIT)
    found.seconds = load.seconds
    return found


async def _open(load: Load, rate: float) -> Found:
    free, loop = deque(await _connect(load)), asyncio.get_running_loop()
    requests = [_request(load, load.path, body.encode()) for body in load.bodies]
    count, rng = int(load.seconds * rate), random.Random(0)
    found = Found(began=loop.time() + 0.1, seconds=load.seconds, latencies=[None] * count)
    waiting: deque[tuple[bytes, Callable[[int, bytes], None]]] = deque()
    owed: deque[list[int]] = deque()  # ids of predictions whose outcome is still to be told
    left = count * (1 if load.feedback is None else 2)
    over = loop.create_future()

    def out() -> None:
        while free and waiting:
            connection, (request, told) = free.popleft(), waiting.popleft()

            def done(
                status: int,
                body: bytes,
                connection: _Connection = connection,
                told: Callable[[int, bytes], None] = told,
            ) -> None:
                nonlocal left
                told(status, body)
                free.append(connection)
                left -= 1
                found.failed += status != 200
                if not left and not over.done():
                    over.set_result(None)
                out()

            connection.ask(request, done)

    def predict(number: int) -> None:
        moment = found.began + number / rate
        found.late.append(loop.time() - moment)

        def told(status: int, body: bytes) -> None:
            if status == 200:
                found.latencies[number] = loop.time() - moment
                found.answered += 1
                if load.feedback is not None:
                    outputs: list[dict[str, Any]] = msgspec.json.decode(body)["outputs"]
                    owed.append(next(o["data"] for o in outputs if o["name"] == "prediction_id"))

        waiting.append((requests[number % len(requests)], told))
        out()
        if number + 1 < count:
            loop.call_at(found.began + (number + 1) / rate, predict, number + 1)

    def tell(number: int) -> None:
        """The outcome of the oldest prediction, halfway between two predictions; later if none is answered yet."""
        if not owed and loop.time() < found.began + load.seconds + LAST_WAIT:
            loop.call_later(0.5 / rate, tell, number)
            return
        assert load.feedback is not None
        ids, moment = owed.popleft() if owed else [], loop.time()
        body = msgspec.json.encode({"ids": ids, "labels": [float(rng.random() < 0.3) for _ in ids]})
        waiting.append((_request(load, load.feedback, body), lambda *_: found.feedback.append(loop.time() - moment)))
        out()
        if number + 1 < count:
            loop.call_at(max(found.began + (number + 1.5) / rate, loop.time()), tell, number + 1)

    loop.call_at(found.began, predict, 0)
    if load.feedback is not None:
        loop.call_at(found.began + 0.5 / rate, tell, 0)
    await asyncio.wait_for(over, load.seconds + 2 * LAST_WAIT)
    return found


def main() -> None:
    """One load from standard input, what came of it to standard output."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    if load.rate is None:
        import uvloop  # only where throughput counts

        found = uvloop.run(_closed(load))
    else:
        # select() wakes on time; epoll, which is the default, rounds to whole milliseconds.
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
            found = runner.run(_open(load, load.rate))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
