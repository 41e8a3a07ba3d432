"""The dashboard on a real server in a thread, which can be stopped and started again on the same port."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator
from typing import final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request

from alphaedge.dashboard.routes import dashboard_routes
from alphaedge.monitoring.frames import Fleet, Frame
from alphaedge.monitoring.history import MAX_BYTES, History
from tests.monitoring.synthetic import State

WAIT_SECONDS = 60.0  # for a start or an end that takes milliseconds on an idle machine


@final
class Served:
    """A context manager for a running server. token: needed to see the fleet. max_bytes: of the history."""

    def __init__(self, token: str | None = None, *, keep_alive: float = 10.0, max_bytes: int = MAX_BYTES) -> None:
        self.history, self.token, self.keep_alive = History(max_bytes=max_bytes), token, keep_alive
        self.open_streams = 0
        self._news = threading.Condition()  # guards the history, which tests add to from their own thread
        self._now = 0.0
        self._waiting: set[asyncio.Event] = set()
        self._stopping = False
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    def __enter__(self) -> "Served":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, time: float, state: State) -> None:
        """Add a state of the fleet, and send it to all pages."""
        with self._news:
            self.history.add(state, time)
            self._now = max(self._now, time)
        self._wake()

    def start(self) -> None:
        app = Starlette(routes=dashboard_routes(self._fleet, self._stream, self._authorize, keep_alive=self.keep_alive))
        self._stopping, started = False, threading.Event()
        settings = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_config=None, access_log=False)
        self._server = _Ending(settings, started, self._end_streams)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert started.wait(WAIT_SECONDS), "the server does not start"

    def stop(self) -> None:
        """Stop as SIGTERM does, and wait until the server and all its streams have ended."""
        self._server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), "the server does not stop"

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._server.serve())

    def _end_streams(self) -> None:
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        for event in list(self._waiting):
            self._loop.call_soon_threadsafe(event.set)

    def _fleet(self) -> Fleet:
        with self._news:
            return Fleet(edge="berlin", now=self._now, frames=self.history.since(-1.0))

    async def _stream(self, after: float) -> AsyncGenerator[Frame, None]:
        wake = asyncio.Event()
        self._waiting.add(wake)
        self.open_streams += 1
        try:
            while not self._stopping:
                wake.clear()
                with self._news:
                    frames = self.history.since(after)
                for frame in frames:
                    after = frame.time
                    yield frame
                if not frames:
                    await wake.wait()
        finally:
            self._waiting.discard(wake)
            self.open_streams -= 1

    def _authorize(self, request: Request) -> None:
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            raise HTTPException(401, "send the token", {"www-authenticate": "Bearer"})


@final
class _Ending(uvicorn.Server):
    """Says when it listens, and ends streams before it waits for requests to end."""

    def __init__(self, settings: uvicorn.Config, started: threading.Event, end: object) -> None:
        super().__init__(settings)
        self._listening, self._end = started, end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        assert callable(self._end)
        self._end()
        await super().shutdown(sockets)
