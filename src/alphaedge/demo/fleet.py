"""A fleet of live edges on this machine: certificates, configurations and processes, all in one folder."""

import datetime as dt
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import tomli_w

from alphaedge.child_process import child_of
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.errors import FleetError
from alphaedge.files import replace_file

HOST: Final = "127.0.0.1"
STOP_TIMEOUT_SECONDS: Final = 10.0  # then edges are killed
CERTIFICATE_DAYS: Final = 2
CITIES: Final = {
    "berlin": "DE", "madrid": "ES", "oslo": "NO", "tokyo": "JP", "boston": "US", "sydney": "AU",
    "lagos": "NG", "lima": "PE", "cairo": "EG", "delhi": "IN", "toronto": "CA", "jakarta": "ID",
}  # fmt: skip


def cities(count: int) -> dict[str, str]:
    """Return the regions of ``count`` edges by name."""
    regions = dict(list(CITIES.items())[:count])
    return regions | {f"edge-{number}": f"R{number}" for number in range(len(regions) + 1, count + 1)}


@final
class DemoFleet:
    """Live edges whose files are in one folder. Use it in a ``with`` block, which ends all processes.

    regions: by edge. model, method: sections of their configurations.
    """

    def __init__(
        self, folder: Path, regions: Mapping[str, str], *, model: Mapping[str, Any], method: Mapping[str, Any]
    ) -> None:
        self.folder, self.regions = folder, dict(regions)
        self.policy = folder / "policy.txt"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports = _free_ports(2 * len(regions))
        self._ports = dict(zip(regions, zip(ports[::2], ports[1::2], strict=True), strict=True))
        self._write_files(model, method)

    def _write_files(self, model: Mapping[str, Any], method: Mapping[str, Any]) -> None:
        authority, now = CertificateFolder(self.folder / "certs"), dt.datetime.now(dt.UTC)
        authority.init("demo", now=now, days=2 * CERTIFICATE_DAYS)
        (self.folder / "fleet.secret").write_text(secrets.token_hex(16))
        self.policy.write_text("# deny from=REGION-OR-EDGE to=REGION-OR-EDGE\n")
        seeds = [f"{HOST}:{peers}" for _, peers in list(self._ports.values())[:2]]
        for name, region in self.regions.items():
            authority.issue(name, region, [HOST], now=now, days=CERTIFICATE_DAYS)
            public, peers = self._ports[name]
            config = {
                "edge": name,
                "region": region,
                "secret": "../fleet.secret",
                "policy": "../policy.txt",
                "model": dict(model),
                "method": dict(method),
                # Learning is what there is to see, and on a busy machine a learner at low priority would starve.
                "serve": {"host": HOST, "port": public, "learner_priority": "normal"},
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
        """Return the URL of an edge."""
        return f"http://{HOST}:{self._ports[name][0]}"

    def log_file(self, name: str) -> Path:
        """Return the path of an edge's log."""
        return self.folder / name / "log.txt"

    def save_logs(self, folder: Path) -> Path:
        """Copy the logs of all edges to another folder, and return it."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._processes:
            shutil.copyfile(self.log_file(name), folder / f"{name}.txt")
        return folder

    def start(self, names: Sequence[str] | None = None) -> None:
        """Start some edges; None: all."""
        for name in names if names is not None else self.regions:
            command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--log", "text"]
            command += ["--config", str(self.folder / name / "edge.toml")]
            with self.log_file(name).open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=child_of(os.getpid())
                )

    def kill(self, name: str) -> None:
        """Kill an edge with SIGKILL, like a power cut."""
        self._processes[name].kill()
        self._processes[name].wait()

    def cut_link(self, one: str, other: str) -> None:
        """Forbid a link in both directions, by the policy."""
        rules = f"deny from={one} to={other}\ndeny from={other} to={one}\n"
        replace_file(self.policy, self.policy.read_bytes() + rules.encode())

    def is_running(self, name: str) -> bool:
        """Whether the process of an edge runs."""
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def check_running(self, names: Sequence[str]) -> None:
        """Raise ``FleetError`` if one of these edges has ended."""
        for name in names:
            process = self._processes.get(name)
            if process is not None and process.poll() is not None:
                raise FleetError(f"{name} has ended (code {process.returncode})")

    def stop(self) -> None:
        """Stop all edges and wait until they have ended."""
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
