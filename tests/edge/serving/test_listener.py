"""The listener of the public port, on the event loop that it has in production."""

import asyncio
import socket
from collections.abc import Callable

import uvloop

from alphaedge.edge.serving.limits import Budget
from alphaedge.edge.serving.listener import Listener


class Noting(asyncio.Protocol):
    """Calls what it is given when the connection is made, and notes when it has ended."""

    def __init__(self, made: Callable[[], None], ended: asyncio.Event) -> None:
        self._made, self._ended = made, ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()


def test_a_connection_that_is_made_while_the_listener_closes_is_ended_and_its_protocol_told() -> None:
    async def close_amid_a_connection() -> None:
        ended = asyncio.Event()
        listener = Listener(
            lambda _note, _lost: Noting(lambda: listener.close(), ended), None, Budget(10, 10), lambda _r, _c: None
        )
        await listener.start("127.0.0.1", 0)
        with socket.create_connection(listener.sockets[0].getsockname()[:2]):
            async with asyncio.timeout(30):
                await ended.wait()
                await listener.wait_closed()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(close_amid_a_connection())
