"""Edges that are revoked or banned are shut out by running edges: real processes, each with its own certificates."""

import contextlib
import datetime as dt
import shutil
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.edge.directory.exchange import Delta, Digest
from alphaedge.edge.trust.authority import CertificateFolder

from ..credentials import load_credentials
from ..directories import announcement
from ..hostile import EdgeLog, alive_peers, status
from ..processes import Edge, events, send, tell, wait_for

NAMES = ("berlin", "bonn", "boston")
DIGEST = msgspec.msgpack.encode(Digest({}))


def command(*words: str | Path) -> str:
    """Run a command of ``alphaedge`` and return what it prints."""
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.output


@dataclass
class Connection:
    """A connection of boston to the port for peers of another edge, which stays open between requests."""

    link: ssl.SSLSocket

    def ask(self, endpoint: str, body: bytes) -> tuple[int, str]:
        """Return status and text of the answer; 0 if the connection is closed."""
        head = f"POST /peer/{endpoint} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        try:
            self.link.sendall(head.encode() + body)
            answer = self.link.recv(100_000).decode("latin-1")
        except OSError:
            return 0, ""
        return int(answer.split()[1]) if answer else 0, answer.rpartition("\r\n\r\n")[2]

    def is_closed(self) -> bool:
        try:
            return self.link.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


@dataclass
class Fleet:
    """certs: the authority's folder. Each edge has a copy of its files."""

    certs: Path
    edges: dict[str, Edge]

    @contextlib.contextmanager
    def connect(self, edge: str, certificates: Path) -> Iterator[Connection]:
        """Connect to an edge as boston, with a certificate from a folder."""
        context = ssl.create_default_context(cafile=str(self.certs / "ca.pem"))
        context.load_cert_chain(certificates / "boston.pem", certificates / "boston.key")
        host, port = self.edges[edge].address.split(":")
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname=host) as link,
        ):
            link.settimeout(1)
            yield Connection(link)

    def all_see_all(self) -> bool:
        return all(alive_peers(edge) == set(NAMES) - {name} for name, edge in self.edges.items())


@pytest.fixture
def fleet(tmp_path: Path, edge_log: EdgeLog) -> Iterator[Fleet]:
    authority, now = CertificateFolder(tmp_path / "certs"), dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=100)
    made: dict[str, Edge] = {}
    try:
        for name in NAMES:
            authority.issue(name, "DE", ["127.0.0.1"], now=now, days=50)
            own = tmp_path / name / "certs"
            own.mkdir(parents=True)
            for file in ("ca.pem", f"{name}.pem", f"{name}.key"):
                shutil.copy(authority.path / file, own)
            peers = {
                "port": 0,
                "seeds": [made["berlin"].address] if made else [],
                "certificate": f"certs/{name}.pem",
                "key": f"certs/{name}.key",
                "authority": "certs/ca.pem",
            }
            made[name] = Edge(tmp_path / name, edge=name, region="DE", peers=peers)
            with edge_log.capture():
                made[name].start()
        yield Fleet(authority.path, made)
    finally:
        for edge in made.values():
            edge.end()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_revoked_edge_is_shut_out_by_all_and_its_new_certificate_is_let_in(
    fleet: Fleet, tmp_path: Path, edge_log: EdgeLog
) -> None:
    edges, old = fleet.edges, tmp_path / "old"
    wait_for(fleet.all_see_all, "every edge to see every other")
    shutil.copytree(fleet.certs, old)
    with fleet.connect("bonn", old) as connection:
        assert connection.ask("gossip", DIGEST)[0] == 200
        command("certs", "revoke", fleet.certs, "--edge", "boston")
        shutil.copy(fleet.certs / "revoked.list", edges["berlin"].folder / "certs")  # to one edge only
        wait_for(lambda: status(edges["bonn"]).revocations == 1, "bonn to hear of the list")
        wait_for(connection.is_closed, "the open connection to be closed")
    for name, other in (("berlin", "bonn"), ("bonn", "berlin")):
        wait_for(lambda name=name, other=other: alive_peers(edges[name]) == {other}, f"{name} to drop boston")  # type: ignore[misc]
        with fleet.connect(name, old) as connection:
            code, text = connection.ask("gossip", DIGEST)
        assert (code, "of boston is revoked" in text) == (403, True)
    label = tell(edges["boston"], send(edges["boston"], events(3)))
    assert label["accepted"] == 3, "boston still serves its callers"

    edges["bonn"].kill()
    with edge_log.capture():
        edges["bonn"].start()
    wait_for(lambda: status(edges["bonn"]).revocations == 1, "bonn to know the list after a restart")
    command("certs", "renew", fleet.certs, "--edge", "boston")
    for file in ("boston.key", "boston.pem"):
        shutil.copy(fleet.certs / file, edges["boston"].folder / "certs")
    wait_for(fleet.all_see_all, "every edge to see every other again")
    with fleet.connect("bonn", old) as connection:
        assert connection.ask("gossip", DIGEST)[0] == 403, "the old certificate stays revoked"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_banned_edge_is_refused_whatever_it_asks_for(fleet: Fleet) -> None:
    edges = fleet.edges
    wait_for(fleet.all_see_all, "every edge to see every other")
    config = edges["bonn"].path
    boston = load_credentials(fleet.certs, "boston")
    delta = msgspec.msgpack.encode(Delta([boston.sign(announcement("boston", 9))], Digest({})))
    with fleet.connect("bonn", fleet.certs) as connection:
        assert connection.ask("gossip", DIGEST)[0] == 200
        command("ban", "boston", "--config", config)
        wait_for(connection.is_closed, "the open connection to be closed")
    for endpoint, body in (("gossip", DIGEST), ("delta", delta), ("pull", b"x"), ("rows", b"x"), ("again/x", b"")):
        with fleet.connect("bonn", fleet.certs) as connection:
            code, text = connection.ask(endpoint, body)
        assert (code, text) == (403, "boston is banned: deny from=boston to=*"), endpoint
    wait_for(lambda: alive_peers(edges["bonn"]) == {"berlin"}, "bonn to ignore boston")
    wait_for(lambda: alive_peers(edges["berlin"]) == {"bonn", "boston"}, "berlin to see both")
    command("ban", "boston", "--config", config, "--undo")
    wait_for(fleet.all_see_all, "every edge to see every other again")
