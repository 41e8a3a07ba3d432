"""The file of wire secrets: its two steps, what is refused, and that nothing shows a secret."""

import datetime as dt
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.edge.check import check_edge
from alphaedge.edge.config import load
from alphaedge.edge.trust.wire_secrets import (
    WireSecret,
    WireSecrets,
    begin_rotation,
    finish_rotation,
    read_wire_secrets,
)
from alphaedge.errors import InvalidValue

from ..processes import Edge

FIRST = b"a secret of the fleet"
OTHER = b"another secret of the fleet"


def names(secrets: WireSecrets) -> list[bytes]:
    return [secret.name for secret in secrets.newest_first]


def test_a_rotation_has_the_old_secret_beside_the_new_one_and_then_the_new_one_alone(tmp_path: Path) -> None:
    path = tmp_path / "wire.secrets"
    secrets = WireSecrets(FIRST, path)
    before = names(secrets)
    new = begin_rotation(path, FIRST)
    assert secrets.refresh()
    assert names(secrets) == [new.name, *before]
    assert finish_rotation(path, FIRST) == new
    assert secrets.refresh()
    assert names(secrets) == [new.name]
    newer = begin_rotation(path, FIRST)
    assert names(WireSecrets(FIRST, path)) == [newer.name, new.name], "the first secret is used on the wire no more"
    assert not WireSecrets(FIRST, path).refresh()


def test_steps_out_of_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wire.secrets"
    with pytest.raises(InvalidValue, match="no rotation is under way"):
        finish_rotation(path, FIRST)
    begin_rotation(path, FIRST)
    with pytest.raises(InvalidValue, match="finish it first"):
        begin_rotation(path, FIRST)


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    begin_rotation(tmp_path / "wire.secrets", FIRST)
    assert stat.S_IMODE((tmp_path / "wire.secrets").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 secrets"),
        (b"# nothing\n\n", "0 secrets"),
        (b"too short\n", "9 bytes"),
        (FIRST + b"\n" + FIRST + b"\n", "2 secrets, 1 of them different"),
        (b"\n".join(b"secret number %d of many" % n for n in range(3)), "3 secrets"),
    ],
)
def test_a_file_that_is_wrong_is_refused_and_changes_nothing(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "wire.secrets"
    path.write_bytes(OTHER)
    secrets = WireSecrets(FIRST, path)
    before = names(secrets)
    path.write_bytes(content)
    with pytest.raises(InvalidValue, match=words) as refusal:
        read_wire_secrets(path)
    assert "secret of the" not in str(refusal.value), "an error never shows a secret"
    assert not secrets.refresh()
    assert names(secrets) == before
    path.unlink()
    assert not secrets.refresh(), "nor does an edge go back to the first secret because the file is gone"
    assert names(secrets) == before


def test_a_file_that_the_configuration_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        WireSecrets(FIRST, tmp_path / "wire.secrets", optional=False)
    assert names(WireSecrets(FIRST, tmp_path / "wire.secrets")) == [WireSecret(FIRST, FIRST).name]


def test_a_name_depends_on_both_secrets_and_nothing_shows_either() -> None:
    pairs = [(FIRST, FIRST), (FIRST, OTHER), (OTHER, FIRST), (OTHER, OTHER)]
    assert len({WireSecret(*pair).name for pair in pairs}) == len(pairs)
    assert "secret of" not in repr(WireSecret(FIRST, OTHER))


def test_a_check_names_the_newest_secret_and_refuses_a_file_that_is_wrong(tmp_path: Path) -> None:
    config, now = load(Edge(tmp_path).path), dt.datetime.now(dt.UTC)
    assert not any("wire" in line for line in check_edge(config, tmp_path, now))
    new = begin_rotation(tmp_path / "wire.secrets", FIRST)
    assert f"wire secrets: 2, the newest is {new.name.hex()}" in check_edge(config, tmp_path, now)
    (tmp_path / "wire.secrets").write_bytes(b"short")
    with pytest.raises(InvalidValue, match="a secret of 16 to 64 bytes"):
        check_edge(config, tmp_path, now)
    named = load(Edge(tmp_path, peers={"secrets": "elsewhere"}).path)
    with pytest.raises(InvalidValue, match=r"peers.secrets.*elsewhere.*a readable file"):
        check_edge(named, tmp_path, now)


def test_the_command_says_what_to_do_next_and_never_shows_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "fleet.secret"
    file.write_bytes(FIRST + b"\n")

    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["certs", "secret", str(file), *words], env={"COLUMNS": "200"})
        return result.exit_code, result.output

    code, text = run("--rotate")
    secrets = read_wire_secrets(tmp_path / "wire.secrets")
    assert (code, "--finish" in text, WireSecret(secrets[-1], FIRST).name.hex() in text) == (0, True, True)
    assert not any(secret.decode() in text for secret in secrets)
    assert run("--finish")[0] == 0
    assert read_wire_secrets(tmp_path / "wire.secrets") == secrets[-1:]
    for words in ((), ("--rotate", "--finish")):
        code, text = run(*words)
        assert (code, "one of --rotate and --finish" in text) == (2, True)
    assert file.read_bytes() == FIRST + b"\n"
