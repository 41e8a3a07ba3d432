"""The processes of a fleet whose edges all run on this machine: start them, find them again, stop them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from alphaedge.child_process import child_of
from alphaedge.errors import FleetError, InvalidValue
from alphaedge.fleet.layout import EdgeAddress, Fleet
from alphaedge.http_client import is_ready

PID_FILE, LOG_FILE = "edge.pid", "log.txt"
POLL_SECONDS: Final = 0.1
STOP_SECONDS: Final = 30.0  # an edge finishes open requests first; then it is killed


@final
class LocalFleet:
    """The processes of a fleet folder. Each edge has a file with the id of its process and one with its log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fleet = folder.resolve(), Fleet.load(folder)
        if not self.fleet.local:
            hosts = ", ".join(edge.host for edge in self.fleet.edges[:3])
            allowed = (
                "a fleet made without --host: copy each folder to its machine and run `alphaedge edge serve` there"
            )
            raise InvalidValue("fleet", f"edges on {hosts}", allowed)

    def start(self, *, detach: bool) -> list[str]:
        """Start every edge that does not run; return their names. detach: they go on when this process ends."""
        started = []
        stopped = [edge for edge in self.fleet.edges if self.pid(edge) is None]
        for edge in stopped:
            _check_free(edge)
        for edge in stopped:
            own = self.folder / edge.name
            command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--log", "text", "--config"]
            with (own / LOG_FILE).open("ab") as log:
                process = subprocess.Popen(
                    [*command, str(own / "edge.toml")],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=detach,
                    preexec_fn=None if detach else child_of(os.getpid()),  # without it, Ctrl-C is for them too
                )
            (own / PID_FILE).write_text(str(process.pid))
            started.append(edge.name)
        return started

    def pid(self, edge: EdgeAddress) -> int | None:
        """The process of an edge; None if it does not run."""
        file = self.folder / edge.name / PID_FILE
        try:
            number = int(file.read_text())
            os.kill(number, 0)
            if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return None  # it has ended, and its parent has not asked for its exit code
            command = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace")
        except (OSError, ValueError):
            return None
        # The number may belong to another process by now.
        return number if str(self.folder / edge.name / "edge.toml") in command else None

    def running(self) -> list[EdgeAddress]:
        """The edges that run."""
        return [edge for edge in self.fleet.edges if self.pid(edge) is not None]

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Wait until all edges can predict; raises ``FleetError`` if one ends, or if it takes too long."""
        deadline, waiting = time.monotonic() + timeout_seconds, list(self.fleet.edges)
        while waiting:
            for edge in waiting:
                if self.pid(edge) is None:
                    raise FleetError(f"{edge.name} has ended: {self.last_words(edge)}")
            waiting = [edge for edge in waiting if not is_ready(edge.url)]
            if waiting and time.monotonic() > deadline:
                names = ", ".join(edge.name for edge in waiting)
                raise FleetError(f"not ready after {timeout_seconds:.0f} s: {names}; see {LOG_FILE} in their folders")
            time.sleep(POLL_SECONDS if waiting else 0)

    def last_words(self, edge: EdgeAddress) -> str:
        """The last line of an edge's log."""
        try:
            lines = (self.folder / edge.name / LOG_FILE).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "no log"

    def stop(self, names: Sequence[str] | None = None) -> Sequence[str]:
        """Stop some edges and wait until they have ended; return the names of those that ran. None: all."""
        chosen = [edge for edge in self.fleet.edges if names is None or edge.name in names]
        running = {edge.name: number for edge in chosen if (number := self.pid(edge)) is not None}
        for number in running.values():
            _signal(number, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        by_name = {edge.name: edge for edge in self.fleet.edges}
        while left := [name for name in running if self.pid(by_name[name]) is not None]:
            if time.monotonic() > deadline:
                for name in left:
                    _signal(running[name], signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        for name in running:
            (self.folder / name / PID_FILE).unlink(missing_ok=True)
        return list(running)


def _check_free(edge: EdgeAddress) -> None:
    """Refuse to start an edge on a port that somebody else listens on."""
    for port in (edge.port, edge.peer_port):
        try:
            socket.create_server((edge.host, port)).close()
        except OSError as error:
            reason = f"{edge.name} can't listen on port {port} ({error.strerror})"
            raise FleetError(
                f"{reason}: stop what does, or make the fleet with another --port and --peer-port"
            ) from None


def _signal(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.kill(process, number)
