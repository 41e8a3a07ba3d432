"""``alphaedge edge serve``: the server in this process, the learner in one beside it."""

import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch
import uvicorn

from alphaedge.edge.clock import steady
from alphaedge.edge.config import load
from alphaedge.edge.journal import Journal
from alphaedge.edge.service import Service
from alphaedge.edge.serving import Server

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a learner that has died is started again
GRACE: Final = 20.0  # seconds that a learner has to end by itself


def run(path: Path) -> None:
    """Serve until SIGTERM or SIGINT."""
    torch.set_num_threads(1)
    config = load(path)
    token = (path.parent / config.serve.token).read_bytes().strip() if config.serve.token else None
    service = Service(config, path.parent, journal_clock)
    server = Server(service, version("alphaedge"), token)
    settings = uvicorn.Config(
        server.app,
        host=config.serve.host,
        port=config.serve.port,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    asyncio.run(_serve(_Told(settings, config.edge), path))


def journal_clock(journal: Journal) -> Callable[[], float]:
    """The time, as a journal goes on with it."""
    return steady(time.time, time.monotonic, journal.latest())


class _Told(uvicorn.Server):
    """A server that says where it listens once it does, and ends with code 0 when it is told to stop."""

    def __init__(self, settings: uvicorn.Config, edge: str) -> None:
        super().__init__(settings)
        self._edge = edge

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals; unlike uvicorn's own, do not raise them again: there is a learner to be stopped first."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                sys.stdout.write(f"{self._edge} serves on http://{host}:{port}\n")
        sys.stdout.flush()


async def _serve(server: uvicorn.Server, path: Path) -> None:
    learning = asyncio.create_task(_keep_learning(path))
    try:
        await server.serve()
    finally:
        learning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await learning


async def _keep_learning(path: Path) -> None:
    """Run the learner, and run it again whenever it dies: its checkpoint and the journal give its state again."""
    wait = FIRST_WAIT
    while True:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "alphaedge.edge.learn", str(path))
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), GRACE)
            except TimeoutError:
                process.kill()
            raise
        wait = FIRST_WAIT if time.monotonic() - began > LONGEST_WAIT else min(2 * wait, LONGEST_WAIT)
        sys.stderr.write(f"the learner ended with code {code}; it starts again in {wait:.1f} s\n")
        await asyncio.sleep(wait)
