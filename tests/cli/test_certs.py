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


def test_all_certificates_that_expire_soon_are_renewed_at_once(tmp_path: Path) -> None:
    folder, now = CertificateFolder(tmp_path), dt.datetime.now(dt.UTC)
    folder.init("shops", now=now, days=1000)
    for edge, days in (("berlin", 90), ("oslo", 7), ("paris", 5), ("gone", 3)):
        folder.issue(edge, "EU", [edge], now=now, days=days)
    folder.revoke(["gone"], (), now=now)
    before = {edge: serial for edge, serial, _ in folder.expiries()}
    result = run("renew", str(tmp_path), "--all", "--within", "14")
    assert result.exit_code == 0, result.output
    assert "left out: gone is revoked" in result.output
    assert {edge for edge, serial, _ in folder.expiries() if serial != before[edge]} == {"oslo", "paris"}
    assert "nothing to renew" in run("renew", str(tmp_path), "--all", "--within", "14").output
    assert run("renew", str(tmp_path), "--edge", "gone", "--edge", "berlin").exit_code == 0
    assert {edge for edge, serial, _ in folder.expiries() if serial == before[edge]} == set()


def test_revoking_writes_the_list_and_the_configuration_of_the_nats_servers_anew(tmp_path: Path) -> None:
    folder, config = str(tmp_path / "certs"), tmp_path / "nats.conf"
    assert run("init", folder).exit_code == 0
    for name in ("berlin", "paris", "nats"):
        assert run("issue", folder, "--edge", name, "--region", "EU", "--host", "127.0.0.1").exit_code == 0
    config.write_text(json.dumps(json.loads(run("nats", folder).stdout) | {"cluster": {"name": "ours"}}))
    result = run("revoke", folder, "--edge", "paris", "--nats", str(config))
    assert result.exit_code == 0, result.output
    written = json.loads(config.read_text())
    assert [user["user"] for user in written["authorization"]["users"]] == ["CN=berlin,OU=EU"]
    assert written["cluster"] == {"name": "ours"}, "what was added by hand stays"
    rows = {row["edge"]: row for row in json.loads(run("show", folder, "--json").stdout)}
    assert rows["paris"]["state"] == "revoked"
    serial = rows["berlin"]["serial"]
    assert "revoked berlin, serial number" in run("revoke", folder, "--serial", serial.upper()).output
    assert "nothing to do" in run("revoke", folder, "--serial", serial).output
    assert run("renew", folder, "--edge", "paris").exit_code == 0
    assert run("nats", folder, "--update", str(config)).exit_code == 0
    written = json.loads(config.read_text())
    assert [user["user"] for user in written["authorization"]["users"]] == ["CN=paris,OU=EU"]
    assert len(written["tls"]["pinned_certs"]) == 2, "paris' new key and the server's"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["renew", "DIR"], ["edge", "--all"]),
        (["renew", "DIR", "--all", "--edge", "x"], ["edge", "--all"]),
        (["renew", "DIR", "--edge", "x", "--within", "3"], ["edge", "--all"]),
        (["revoke", "DIR"], ["edge", "--serial"]),
        (["revoke", "DIR", "--serial", "xyz"], ["serial", "'xyz'", "hexadecimal"]),
        (["revoke", "DIR", "--edge", "x"], ["folder", "certs init"]),
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
