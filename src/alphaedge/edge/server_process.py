"""``alphaedge edge serve``: the server in this process, the learner in one beside it."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, final

import torch
import uvicorn

from alphaedge.backoff import Backoff
from alphaedge.edge import log
from alphaedge.edge.config import load
from alphaedge.edge.cores import assign_cores, pin_process
from alphaedge.edge.serving.http import Server
from alphaedge.edge.serving.limits import LimitedProtocol
from alphaedge.edge.serving.service import Service
from alphaedge.edge.store.clock import steady
from alphaedge.edge.store.journal import Journal

FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS = 0.5, 30.0  # waits before a learner that has exited is started again
GRACE: Final = 20.0  # seconds that a learner has to end by itself


def run(path: Path, *, style: log.Style, insecure: bool) -> None:
    """Serve until SIGTERM or SIGINT."""
    torch.set_num_threads(1)
    config = load(path)
    log.setup(config.edge, "server", style)
    cores = assign_cores(config.serve.cores)
    if cores is not None:
        pin_process(cores.server)
        log.info("cores", server=sorted(cores.server), learner=sorted(cores.learner))
    token = (path.parent / config.serve.token).read_bytes().strip() if config.serve.token else None
    service = Service(config, path.parent, journal_clock)
    server = Server(service, version("alphaedge"), token)
    settings = uvicorn.Config(
        server,
        host=config.serve.host,
        port=config.serve.port,
        ssl_certfile=path.parent / config.serve.certificate if config.serve.certificate else None,
        ssl_keyfile=path.parent / config.serve.key if config.serve.key else None,
        log_config=None,  # what it has to info goes where everything goes
        access_log=False,
        server_header=False,
        http=LimitedProtocol,
        proxy_headers=False,
        interface="asgi3",
    )
    command = LearnerCommand(path, style, insecure, cores.learner if cores is not None else frozenset())
    with asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:  # uvloop, where there is one
        runner.run(_serve(_Told(settings, server, config.edge), command))


@final
@dataclass(frozen=True)
class LearnerCommand:
    """How the learner of an edge is started. cores: those that it stays on; none: any."""

    path: Path
    style: log.Style
    insecure: bool
    cores: frozenset[int] = frozenset()

    def words(self) -> list[str]:
        """The command line."""
        trust = "insecure" if self.insecure else "secure"
        words = [str(self.path), self.style, trust, str(os.getpid()), *map(str, sorted(self.cores))]
        return [sys.executable, "-m", "alphaedge.edge.learner_process", *words]


def journal_clock(journal: Journal) -> Callable[[], float]:
    """The time, as a journal goes on with it."""
    return steady(time.time, time.monotonic, journal.latest())


class _Told(uvicorn.Server):
    """A server that says where it listens once it does, and ends with code 0 when it is told to stop."""

    def __init__(self, settings: uvicorn.Config, app: Server, edge: str) -> None:
        super().__init__(settings)
        self._app, self._edge = app, edge

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
        gc.collect()
        gc.freeze()  # all modules stay for good: to look through them for garbage takes 90 ms, and all callers wait
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                sys.stdout.write(f"{self._edge} serves on {scheme}://{host}:{port}\n")
        sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.end()
        await super().shutdown(sockets)


async def _serve(server: uvicorn.Server, command: LearnerCommand) -> None:
    learning = asyncio.create_task(supervise_learner(command))
    try:
        await server.serve()
    finally:
        learning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await learning


async def supervise_learner(command: LearnerCommand) -> None:
    """Run the learner, and run it again whenever it dies: its checkpoint and the journal give its state again."""
    restarts = Backoff(FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS)
    while True:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(*command.words())
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            try:
                async with asyncio.timeout(GRACE):
                    await process.wait()
            except TimeoutError:
                process.kill()
            raise
        now = time.monotonic()
        if now - began > MAX_RESTART_SECONDS:
            restarts.succeeded()
        wait = restarts.failed(now)
        log.warn("the learner has ended and will start again", code=code, seconds=wait)
        await asyncio.sleep(wait)
