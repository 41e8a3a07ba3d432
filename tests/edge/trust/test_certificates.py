"""A fleet's authority: who gets a certificate, and whose certificate is refused, with the reason."""

import datetime as dt
import json
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner, Result

from alphaedge import InvalidValue
from alphaedge.cli import app
from alphaedge.edge.trust.authority import Folder
from alphaedge.edge.trust.certificates import Pair, check, create_authority, issue, load_certificate
from alphaedge.errors import CertificateError

NOW = dt.datetime(2030, 5, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def authority() -> Pair:
    return create_authority("shops", now=NOW, days=1000)


def edge(ca: Pair, name: str = "berlin", now: dt.datetime = NOW) -> Pair:
    return issue(ca, name, "DE", ["berlin.example.com", "10.0.0.7", "::1"], now=now, days=90)


def test_a_certificate_says_who_where_and_until_when() -> None:
    ca = authority()
    found = check(edge(ca).certificate, ca.certificate, NOW)
    assert (found.edge, found.region, found.hosts) == ("berlin", "DE", ("berlin.example.com", "10.0.0.7", "::1"))
    assert found.ends == NOW + 90 * DAY


@pytest.mark.parametrize(
    ("when", "reason"),
    [(NOW - DAY, "begins only at"), (NOW + 91 * DAY, "the edge's certificate ended at 2030-07-30")],
)
def test_outside_of_its_time_it_is_refused(when: dt.datetime, reason: str) -> None:
    ca = authority()
    with pytest.raises(CertificateError, match=reason):
        check(edge(ca).certificate, ca.certificate, when)


def test_another_fleets_certificate_is_refused_though_the_authority_has_the_same_name() -> None:
    with pytest.raises(CertificateError, match="not issued by this fleet's authority"):
        check(edge(authority()).certificate, authority().certificate, NOW)


def test_an_edge_cannot_issue_certificates() -> None:
    ca = authority()
    false = issue(edge(ca), "paris", "FR", ["paris"], now=NOW, days=10)
    with pytest.raises(CertificateError, match="not issued"):
        check(false.certificate, ca.certificate, NOW)


def signed(ca: Pair, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, *names: x509.NameAttribute) -> x509.Certificate:
    builder = x509.CertificateBuilder().subject_name(x509.Name(names)).issuer_name(ca.certificate.subject)
    builder = builder.public_key(key).serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    return builder.sign(ca.key, hashes.SHA256())


def test_weak_keys_are_refused() -> None:
    ca, name = authority(), x509.NameAttribute(NameOID.COMMON_NAME, "berlin")
    weak = rsa.generate_private_key(65537, 1024).public_key()
    with pytest.raises(CertificateError, match="1024 bits; at least 2048"):
        check(signed(ca, weak, name), ca.certificate, NOW)
    small = ec.generate_private_key(ec.SECP192R1()).public_key()
    with pytest.raises(CertificateError, match="secp192r1; at least 256"):
        check(signed(ca, small, name), ca.certificate, NOW)


def test_a_certificate_without_an_edge_or_a_region_is_refused() -> None:
    ca, key = authority(), ec.generate_private_key(ec.SECP256R1()).public_key()
    with pytest.raises(CertificateError, match="names no edge"):
        check(signed(ca, key), ca.certificate, NOW)
    with pytest.raises(CertificateError, match="names no region"):
        check(signed(ca, key, x509.NameAttribute(NameOID.COMMON_NAME, "berlin")), ca.certificate, NOW)
    twice = [x509.NameAttribute(NameOID.COMMON_NAME, n) for n in ("berlin", "paris")]
    with pytest.raises(CertificateError, match="names no edge"):
        check(signed(ca, key, *twice), ca.certificate, NOW)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 64, "ö", "a\n"])
def test_odd_names_are_refused(name: str) -> None:
    ca = authority()
    for odd in ({"edge": name, "region": "DE"}, {"edge": "berlin", "region": name}):
        with pytest.raises(InvalidValue):
            issue(ca, **odd, hosts=["x"], now=NOW, days=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("hosts", [[], [""], ["a b"], ["-a"], ["a/b"], ["*.example.com"]])
def test_odd_hosts_are_refused(hosts: list[str]) -> None:
    with pytest.raises(InvalidValue, match="hosts"):
        issue(authority(), "berlin", "DE", hosts, now=NOW, days=1)


def test_no_certificate_outlives_its_authority() -> None:
    ca = create_authority("shops", now=NOW, days=30)
    with pytest.raises(CertificateError, match="ends in 30 days"):
        issue(ca, "berlin", "DE", ["x"], now=NOW, days=31)


def test_a_key_of_another_certificate_is_refused() -> None:
    ca = authority()
    one, other = edge(ca), edge(ca)
    assert Pair.load(one.certificate_pem(), one.key_pem()).certificate == one.certificate
    with pytest.raises(CertificateError, match="belongs to another"):
        Pair.load(one.certificate_pem(), other.key_pem())
    for bad in (b"", b"nonsense", one.certificate_pem()):
        with pytest.raises(CertificateError, match="can't be read"):
            Pair.load(one.certificate_pem(), bad)
    with pytest.raises(CertificateError, match="can't be read"):
        load_certificate(b"nonsense")


def test_the_folder_keeps_keys_from_others_and_replaces_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "certs")
    folder.init("shops", now=NOW, days=1000)
    folder.issue("berlin", "DE", ["berlin"], now=NOW, days=90)
    assert {p.name for p in folder.path.iterdir()} == {"ca.pem", "ca.key", "berlin.pem", "berlin.key"}
    for key in folder.path.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = (folder.path / "berlin.pem").read_bytes()
    with pytest.raises(InvalidValue, match="without an authority"):
        folder.init("shops", now=NOW, days=10)
    with pytest.raises(InvalidValue, match="renew it"):
        folder.issue("berlin", "DE", ["berlin"], now=NOW, days=90)
    with pytest.raises(InvalidValue, match="the authority's"):
        folder.issue("ca", "DE", ["berlin"], now=NOW, days=90)
    assert (folder.path / "berlin.pem").read_bytes() == before


def test_renewing_keeps_the_names_and_changes_the_key_even_after_the_end(tmp_path: Path) -> None:
    folder, later = Folder(tmp_path), NOW + 200 * DAY
    folder.init("shops", now=NOW, days=1000)
    folder.issue("berlin", "DE", ["berlin", "10.0.0.7"], now=NOW, days=90)
    old = load_certificate((tmp_path / "berlin.pem").read_bytes())
    folder.renew("berlin", now=later, days=90)
    new = Pair.load((tmp_path / "berlin.pem").read_bytes(), (tmp_path / "berlin.key").read_bytes())
    found = check(new.certificate, load_certificate((tmp_path / "ca.pem").read_bytes()), later)
    assert (found.edge, found.region, found.hosts) == ("berlin", "DE", ("berlin", "10.0.0.7"))
    assert new.certificate.public_key() != old.public_key()
    with pytest.raises(InvalidValue, match="one of berlin"):
        folder.renew("paris", now=later, days=90)


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["certs", *args], env={"COLUMNS": "200"})


def test_the_command_line_makes_a_fleet_that_can_talk(tmp_path: Path) -> None:
    """With the files alone, both ends of a TLS connection know who the other one is."""
    folder = str(tmp_path / "certs")
    assert run("init", folder, "--fleet", "shops").exit_code == 0
    for name in ("berlin", "paris"):
        args = ("issue", folder, "--edge", name, "--region", "EU", "--host", "127.0.0.1", "--host", "localhost")
        found = run(*args)
        assert found.exit_code == 0, found.output
    seen: dict[str, str] = {}

    def context(name: str, purpose: ssl.Purpose) -> ssl.SSLContext:
        made = ssl.create_default_context(purpose, cafile=f"{folder}/ca.pem")
        made.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
        made.verify_mode = ssl.CERT_REQUIRED
        return made

    def common_name(peer: ssl.SSLSocket) -> str:
        certificate = peer.getpeercert(binary_form=True)
        assert certificate is not None
        ca = load_certificate(Path(folder, "ca.pem").read_bytes())
        return check(x509.load_der_x509_certificate(certificate), ca, dt.datetime.now(dt.UTC)).edge

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            raw, _ = listener.accept()
            with context("paris", ssl.Purpose.CLIENT_AUTH).wrap_socket(raw, server_side=True) as connection:
                seen["paris sees"] = common_name(connection)
                connection.sendall(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        raw = socket.create_connection(listener.getsockname())
        with context("berlin", ssl.Purpose.SERVER_AUTH).wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            seen["berlin sees"] = common_name(connection)
            assert connection.recv(1) == b"x"
        thread.join(10)
    assert seen == {"paris sees": "berlin", "berlin sees": "paris"}


def test_show_tells_what_is_good_what_ends_soon_and_what_is_bad(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    today = dt.datetime.now(dt.UTC)
    folder.init("shops", now=today - 100 * DAY, days=1000)
    folder.issue("berlin", "DE", ["berlin"], now=today, days=90)
    folder.issue("oslo", "NO", ["oslo"], now=today, days=7)
    assert run("show", str(tmp_path)).exit_code == 0
    folder.issue("paris", "FR", ["paris"], now=today - 95 * DAY, days=90)
    found = run("show", str(tmp_path), "--json")
    assert found.exit_code == 1
    states = {row["edge"]: row["state"] for row in json.loads(found.stdout)}
    assert states["berlin"] == "good"
    assert states["oslo"] == "ends soon: renew it"
    assert "ended at" in states["paris"]
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
def test_mistakes_are_one_clear_line(tmp_path: Path, args: list[str], words: list[str]) -> None:
    found = run(*(str(tmp_path / "none") if a == "DIR" else a for a in args))
    assert found.exit_code == 2
    for word in words:
        assert word in found.output
