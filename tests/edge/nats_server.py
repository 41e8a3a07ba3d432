"""A real nats-server in a process of its own, for tests: started, killed and started again on the same port."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from alphaedge.edge.directory.nats_server_config import server_config
from alphaedge.edge.trust.certificates import identity, load_certificate

from .processes import wait_for

SERVER = "nats"  # what the server's certificate is called among those of the edges


def program() -> str:
    """Where nats-server is. Without it tests are skipped; in CI they fail, where nobody would notice."""
    found = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/bin")
    if found is None:
        absent = "nats-server is not installed (Debian: apt-get install nats-server)"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NatsServer:
    """One server; as a context, one that runs. settings: its configuration file; it listens where ``url`` says."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.program, self.folder, self.port = program(), folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self.write(settings)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "NatsServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"tls://127.0.0.1:{self.port}"

    def write(self, settings: str) -> None:
        (self.folder / "nats.conf").write_text(settings)

    def start(self) -> None:
        with (self.folder / "nats.log").open("ab") as log:
            words = [self.program, "-c", "nats.conf", "-a", "127.0.0.1", "-p", str(self.port)]
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log)
        wait_for(self._answers, "nats-server to answer", 20)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "nats.log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as link:
                return link.recv(5) == b"INFO "
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def for_fleet(certs: Path, edges: Iterable[str], store: Path) -> str:
    """The configuration of a server for these edges, who have their certificates in that folder, as it has."""
    known = [identity(load_certificate((certs / f"{edge}.pem").read_bytes())) for edge in edges]
    return server_config(known, certs=certs, store=store, name=SERVER)
