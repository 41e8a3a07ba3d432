"""A fleet of real edges on this machine: certificates, configurations and processes, all in one folder."""

import ctypes
import datetime as dt
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import tomli_w

from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.errors import FleetError

HOST: Final = "127.0.0.1"
GRACE: Final = 10.0  # seconds to end in good order
DAYS: Final = 2  # that the certificates hold
CITIES: Final = {
    "berlin": "DE", "madrid": "ES", "oslo": "NO", "tokyo": "JP", "boston": "US", "sydney": "AU",
    "lagos": "NG", "lima": "PE", "cairo": "EG", "delhi": "IN", "toronto": "CA", "jakarta": "ID",
}  # fmt: skip
PR_SET_PDEATHSIG: Final = 1  # Linux


def cities(count: int) -> dict[str, str]:
    """Names and regions of so many edges."""
    found = dict(list(CITIES.items())[:count])
    return found | {f"edge-{number}": f"R{number}" for number in range(len(found) + 1, count + 1)}


@final
class DemoFleet:
    """Edges by name, each with a region, below a folder. model, method: sections of their configurations.

    Use it in a ``with``: however that ends, no process stays.
    """

    def __init__(
        self, folder: Path, regions: Mapping[str, str], *, model: Mapping[str, Any], method: Mapping[str, Any]
    ) -> None:
        self.folder, self.regions = folder, dict(regions)
        self.policy = folder / "policy.txt"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports = _free_ports(2 * len(regions))
        self._ports = dict(zip(regions, zip(ports[::2], ports[1::2], strict=True), strict=True))
        self._write(model, method)

    def _write(self, model: Mapping[str, Any], method: Mapping[str, Any]) -> None:
        authority, now = CertificateFolder(self.folder / "certs"), dt.datetime.now(dt.UTC)
        authority.init("demo", now=now, days=2 * DAYS)
        (self.folder / "fleet.secret").write_text(secrets.token_hex(16))
        self.policy.write_text("# deny from=REGION-OR-EDGE to=REGION-OR-EDGE\n")
        seeds = [f"{HOST}:{peers}" for _, peers in list(self._ports.values())[:2]]
        for name, region in self.regions.items():
            authority.issue(name, region, [HOST], now=now, days=DAYS)
            public, peers = self._ports[name]
            config = {
                "edge": name,
                "region": region,
                "secret": "../fleet.secret",
                "policy": "../policy.txt",
                "model": dict(model),
                "method": dict(method),
                "serve": {"host": HOST, "port": public},
                "peers": {
                    "host": HOST,
                    "port": peers,
                    "seeds": [seed for seed in seeds if seed != f"{HOST}:{peers}"],
                    "certificate": f"../certs/{name}.pem",
                    "key": f"../certs/{name}.key",
                    "authority": "../certs/ca.pem",
                },
            }
            (self.folder / name).mkdir()
            (self.folder / name / "edge.toml").write_text(tomli_w.dumps(config))

    def __enter__(self) -> "DemoFleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, name: str) -> str:
        """Where an edge answers."""
        return f"http://{HOST}:{self._ports[name][0]}"

    def log(self, name: str) -> Path:
        """Where an edge says what it does."""
        return self.folder / name / "log.txt"

    def save_logs(self, folder: Path) -> Path:
        """Copy what all edges have said to a folder that stays."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._processes:
            shutil.copyfile(self.log(name), folder / f"{name}.txt")
        return folder

    def start(self, names: Sequence[str] | None = None) -> None:
        """Start edges, all if none are named."""
        for name in names if names is not None else self.regions:
            command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--log", "text"]
            command += ["--config", str(self.folder / name / "edge.toml")]
            with self.log(name).open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with(os.getpid())
                )

    def kill(self, name: str) -> None:
        """kill -9, as a power cut would have it."""
        self._processes[name].kill()
        self._processes[name].wait()

    def cut(self, one: str, other: str) -> None:
        """Forbid a link, in both directions."""
        with self.policy.open("a") as policy:
            policy.write(f"deny from={one} to={other}\ndeny from={other} to={one}\n")

    def running(self, name: str) -> bool:
        """Whether its process is there."""
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def check(self, names: Sequence[str]) -> None:
        """An error if one of them has ended by itself."""
        for name in names:
            process = self._processes.get(name)
            if process is not None and process.poll() is not None:
                raise FleetError(f"{name} has ended (code {process.returncode})")

    def stop(self) -> None:
        """End all, and wait until they have."""
        here = [process for process in self._processes.values() if process.poll() is None]
        for process in here:
            process.terminate()
        for process in here:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _die_with(parent: int) -> Any:
    """What a child does before it becomes an edge: it asks to be ended when this process ends, however that is.

    And Ctrl-C in the terminal is for this process alone, which ends the others in order.
    """

    def prepare() -> None:
        os.setpgrp()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it has ended already
                os._exit(1)

    return prepare


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    found = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return found
