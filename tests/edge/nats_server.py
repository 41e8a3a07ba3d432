"""A real nats-server in a process of its own, for tests: started, killed and started again on the same port."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from alphaedge.edge.directory.nats_server_config import server_config
from alphaedge.edge.trust.certificates import load_certificate, read_identity

from .hostile import skip_or_fail
from .processes import wait_for

SERVER = "nats"  # the edge name in the server's own certificate


def find_program() -> str:
    """Find nats-server. Tests that need it are skipped without it, or fail in CI."""
    path = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/bin")
    if path is None:
        skip_or_fail("nats-server is not installed (Debian: apt-get install nats-server)")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NatsServer:
    """One server, which runs within a ``with`` block. config: the text of its file; it listens at ``url``."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self.folder, self.port = folder, free_port()
        self._program = find_program()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.write(config)

    def __enter__(self) -> "NatsServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"tls://127.0.0.1:{self.port}"

    def write(self, config: str) -> None:
        (self.folder / "nats.conf").write_text(config)

    def start(self) -> None:
        with (self.folder / "nats.log").open("ab") as log:
            command = [self._program, "-c", "nats.conf", "-a", "127.0.0.1", "-p", str(self.port)]
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        wait_for(self._answers, "nats-server to answer")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "nats.log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                return connection.recv(5) == b"INFO "
        except OSError:
            return False

    def reload(self, config: str) -> None:
        """Have it read another configuration."""
        assert self._process is not None
        self.write(config)
        log = self.folder / "nats.log"
        before = log.read_text().count("Reloaded server configuration")
        self._process.send_signal(signal.SIGHUP)
        wait_for(lambda: log.read_text().count("Reloaded server configuration") > before, "nats-server to reload")

    def kill(self) -> None:
        """kill -9, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def fleet_config(certs: Path, edges: Iterable[str], store: Path) -> str:
    """Configure a server for these edges. certs: the folder with their certificates and the server's."""
    identities = [read_identity(load_certificate((certs / f"{edge}.pem").read_bytes())) for edge in edges]
    return server_config(identities, certs=certs, store=store, name=SERVER)
