"""``alphaedge edge serve``: the server in this process, the learner in one beside it."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from alphaedge.edge import log
from alphaedge.edge.config import load
from alphaedge.edge.cores import assign_cores, pin_process
from alphaedge.edge.serving.http import EdgeApp
from alphaedge.edge.serving.limits import CallerLimits, Reason
from alphaedge.edge.serving.listener import Listener
from alphaedge.edge.serving.metrics import CONNECTION
from alphaedge.edge.serving.protocol import LimitedProtocol
from alphaedge.edge.serving.service import PredictionService
from alphaedge.edge.store.clock import journal_clock
from alphaedge.edge.supervisor import LearnerCommand, supervise_learner
from alphaedge.edge.transport.descriptors import connections_within, raise_descriptor_limit

STOP_TIMEOUT_SECONDS: Final = 25  # for open requests to end, once the server is told to stop


def run(path: Path, *, style: log.Style, insecure: bool) -> None:
    """Serve until SIGTERM or SIGINT."""
    torch.set_num_threads(1)
    config = load(path)
    log.configure(config.edge, "server", style)
    cores = assign_cores(config.serve.cores)
    if cores is not None:
        pin_process(cores.server)
        log.info("cores_assigned", server=sorted(cores.server), learner=sorted(cores.learner))
    token = (path.parent / config.serve.token).read_bytes().strip() if config.serve.token else None
    service = PredictionService(config, path.parent, journal_clock)
    connections = connections_within(config.serve.max_connections, raise_descriptor_limit())
    app = EdgeApp(service, version("alphaedge"), token, CallerLimits(config.serve, connections))
    settings = uvicorn.Config(
        app,
        host=config.serve.host,
        port=config.serve.port,
        ssl_certfile=path.parent / config.serve.certificate if config.serve.certificate else None,
        ssl_keyfile=path.parent / config.serve.key if config.serve.key else None,
        log_config=None,  # its warnings go to the edge's log
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=False,
        interface="asgi3",
        timeout_graceful_shutdown=STOP_TIMEOUT_SECONDS,
    )
    command = LearnerCommand(config, path.parent, style, insecure, cores.learner if cores is not None else frozenset())
    with asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:  # uvloop, where there is one
        runner.run(_serve(_EdgeServer(settings, app, config.edge), command))


class _EdgeServer(uvicorn.Server):
    """A server that prints its address when it listens, and exits with code 0 on SIGTERM and SIGINT."""

    def __init__(self, settings: uvicorn.Config, app: EdgeApp, edge: str) -> None:
        super().__init__(settings)
        self._app, self._edge = app, edge

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals; unlike uvicorn, do not raise them again, because the learner has to be stopped first."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and listen within the limits for callers; uvicorn would accept any connection."""
        gc.collect()
        gc.freeze()  # modules are never garbage, and scanning them would stop all requests for 90 ms
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        note = self._app.refusals.note
        listener = Listener(
            self._make_protocol,
            self.config.ssl,
            self._app.limits.connections,
            lambda reason, caller: note(CONNECTION, reason, caller),
        )
        self.servers: list[Any] = [listener]
        try:
            await listener.start(self.config.host, self.config.port)
        except OSError as error:
            log.warn("listen_failed", host=self.config.host, port=self.config.port, reason=error)
            await self.lifespan.shutdown()
            sys.exit(STARTUP_FAILURE)
        for listening in listener.sockets:
            host, port = listening.getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            sys.stdout.write(f"{self._edge} serves on {scheme}://{host}:{port}\n")
        sys.stdout.flush()
        self.started = True

    def _make_protocol(self, note: Callable[[Reason], None], lost: Callable[[], None]) -> LimitedProtocol:
        return LimitedProtocol(self.config, self.server_state, self.lifespan.state, note=note, lost=lost)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.close_streams()
        await super().shutdown(sockets)


async def _serve(server: uvicorn.Server, command: LearnerCommand) -> None:
    supervisor = asyncio.create_task(supervise_learner(command))
    try:
        await server.serve()
    finally:
        supervisor.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await supervisor
