"""``alphaedge certs``: from the command line to edges that trust each other."""

import datetime as dt
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner, Result

from alphaedge.cli import app
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.edge.trust.certificates import check_certificate, load_certificate

DAY = dt.timedelta(days=1)


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["certs", *args], env={"COLUMNS": "200"})


def test_edges_with_issued_certificates_know_each_other(tmp_path: Path) -> None:
    """With the files alone, both ends of a TLS connection know which edge the other one is."""
    folder = str(tmp_path / "certs")
    assert run("init", folder, "--fleet", "shops").exit_code == 0
    for name in ("berlin", "paris"):
        args = ("issue", folder, "--edge", name, "--region", "EU", "--host", "127.0.0.1", "--host", "localhost")
        result = run(*args)
        assert result.exit_code == 0, result.output
    seen: dict[str, str] = {}

    def context(name: str, purpose: ssl.Purpose) -> ssl.SSLContext:
        made = ssl.create_default_context(purpose, cafile=f"{folder}/ca.pem")
        made.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    def peer_name(connection: ssl.SSLSocket) -> str:
        certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        authority = load_certificate(Path(folder, "ca.pem").read_bytes())
        return check_certificate(x509.load_der_x509_certificate(certificate), authority, dt.datetime.now(dt.UTC)).edge

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            raw, _ = listener.accept()
            with context("paris", ssl.Purpose.CLIENT_AUTH).wrap_socket(raw, server_side=True) as connection:
                seen["paris"] = peer_name(connection)
                connection.sendall(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        raw = socket.create_connection(listener.getsockname())
        with context("berlin", ssl.Purpose.SERVER_AUTH).wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            seen["berlin"] = peer_name(connection)
            assert connection.recv(1) == b"x"
        thread.join()
    assert seen == {"paris": "berlin", "berlin": "paris"}


def test_show_tells_valid_certificates_from_those_to_renew_and_those_that_must_not_be_used(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path)
    now = dt.datetime.now(dt.UTC)
    folder.init("shops", now=now - 100 * DAY, days=1000)
    folder.issue("berlin", "DE", ["berlin"], now=now, days=90)
    folder.issue("oslo", "NO", ["oslo"], now=now, days=7)
    assert run("show", str(tmp_path)).exit_code == 0
    folder.issue("paris", "FR", ["paris"], now=now - 95 * DAY, days=90)
    result = run("show", str(tmp_path), "--json")
    assert result.exit_code == 1
    states = {row["edge"]: row["state"] for row in json.loads(result.stdout)}
    assert states["berlin"] == "valid"
    assert states["oslo"] == "expires soon: renew it"
    assert "expired at" in states["paris"]
    assert "oslo" in run("show", str(tmp_path)).output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["issue", "DIR", "--edge", "x", "--region", "y", "--host", "z"], ["folder", "certs init"]),
        (["renew", "DIR", "--edge", "x"], ["folder", "certs init"]),
        (["init", "DIR", "--fleet", "a b"], ["fleet", "'a b'", "letters"]),
        (["init", "DIR", "--days", "0"], ["days", "0", "at least 1"]),
        (["show", "DIR"], ["ca.pem", "No such file"]),
    ],
)
def test_a_mistake_is_one_line_that_names_the_field(tmp_path: Path, args: list[str], words: list[str]) -> None:
    result = run(*(str(tmp_path / "none") if arg == "DIR" else arg for arg in args))
    assert result.exit_code == 2
    for word in words:
        assert word in result.output
