"""An edge's configuration: every mistake is named before anything starts."""

import datetime as dt
import math
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
import torch
from torch import nn
from typer.testing import CliRunner, Result

from alphaedge import InvalidValue, Model, toml
from alphaedge.cli import app
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.trust.authority import CertificateFolder
from alphaedge.settings import MethodSettings

FIELDS = [{"name": "user", "kind": "id", "size": 100}, {"name": "x", "kind": "number", "size": 2}]
NATS = {"servers": ["tls://nats.example.com:4222"]}
BASE: dict[str, Any] = {"edge": "berlin", "region": "DE", "model": {"builtin": "deepfm", "fields": FIELDS}}


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["edge", *args], env={"COLUMNS": "200"})


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "edge.toml"
    path.write_text(tomli_w.dumps(BASE | changes))
    return path


def test_the_file_that_init_writes_is_ready_to_start(tmp_path: Path) -> None:
    path = tmp_path / "new" / "edge.toml"
    assert run("init", str(path), "--edge", "berlin", "--region", "DE").exit_code == 0
    found = run("check", "--config", str(path))
    assert found.exit_code == 0, found.output
    assert "ready to start" in found.output
    assert "learns alone" in found.output
    config = load(path)
    assert (config.edge, config.region) == ("berlin", "DE")
    again = run("init", str(path), "--edge", "paris", "--region", "FR")
    assert again.exit_code == 2
    assert "a new file" in again.output
    assert load(path).edge == "berlin"


def test_the_file_that_init_writes_names_every_key_with_its_default(tmp_path: Path) -> None:
    path = tmp_path / "edge.toml"
    run("init", str(path), "--edge", "berlin", "--region", "DE")
    bare = [line.removeprefix("# ") for line in path.read_text().splitlines()]
    shown = tomllib.loads("\n".join(line for line in bare if "=" in line.partition("#")[0] or line.startswith("[")))
    written_out = msgspec.to_builtins(toml.build(BASE, EdgeConfig))
    for part, keys in {"": written_out, **{k: v for k, v in written_out.items() if isinstance(v, dict)}}.items():
        there = shown if not part else shown[part]
        missing = set(keys) - set(there) - (set(MethodSettings.__struct_fields__) if part == "method" else set())
        missing -= {"factory", "tables"} if part == "model" else set()
        assert not missing, f"{part}: {missing}"
    for part, key in (
        ("serve", "max_body_bytes"),
        ("feedback", "window_seconds"),
        ("model", "batch_size"),
        ("model", "rate"),
        ("peers", "deadline_seconds"),
    ):
        assert shown[part][key] == written_out[part][key]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colour": 1}, ["config key colour", "edge, region"]),
        ({"model": BASE["model"] | {"dim": 3}}, ["config key model.dim"]),
        (
            {"model": {"builtin": "deepfm", "fields": [{"name": "x", "kind": "number", "rows": 3}]}},
            ["model.fields[0].rows"],
        ),
        ({"model": {"builtin": "deepfm", "fields": [{"name": "x", "kind": "text"}]}}, ["kind", "'text'", "category"]),
        ({"model": {"builtin": "deepfm", "fields": []}}, ["model.fields", "at least one"]),
        ({"model": {"builtin": "deepfm", "fields": [FIELDS[0], FIELDS[0]]}}, ["model.fields", "each name once"]),
        ({"model": {"builtin": "deepfm"}}, ["model.fields: found nothing", "at least one field; add it"]),
        ({"model": {"fields": FIELDS}}, ["model.builtin: found nothing", "deepfm, mlp, table; add it, or factory ="]),
        ({"model": BASE["model"] | {"factory": "a:b"}}, ["model.factory", "'a:b'", "remove one of the two"]),
        ({"model": BASE["model"] | {"batch_size": 0}}, ["model.batch_size", "0", "at least 1"]),
        ({"model": BASE["model"] | {"batch_size": 1.5}}, ["model.batch_size", "1.5", "a whole number of at least 1"]),
        ({"model": BASE["model"] | {"rate": -1}}, ["model.rate", "-1", "above 0"]),
        ({"model": BASE["model"] | {"rate": math.nan}}, ["model.rate", "nan", "finite"]),
        ({"model": BASE["model"] | {"rate": math.inf}}, ["model.rate", "inf", "finite"]),
        (
            {"model": {"builtin": "deepfm", "fields": [FIELDS[0], {"name": "x", "kind": "number", "size": 0}]}},
            ["model.fields[1].size", "found 0", "a whole number of at least 1"],
        ),
        (
            {"model": {"builtin": "deepfm", "fields": [{"kind": "number"}]}},
            ["model.fields[0].name: found nothing", "text; add it"],
        ),
        ({"model": 3}, ["model: found 3", "a section with name, builtin"]),
        ({"edge": "a b"}, ["edge", "'a b'", "letters"]),
        ({"region": "*"}, ["region", "'*'"]),
        ({"serve": {"port": 70000}}, ["serve.port", "70000", "65535"]),
        ({"serve": {"port": "x"}}, ["serve.port", "'x'", "a whole number from 0 to 65535"]),
        ({"serve": {"certificate": "a.pem"}}, ["serve.key: found nothing", "a file; add it", "go together"]),
        ({"serve": {"key": "a.key"}}, ["serve.certificate: found nothing", "a file; add it", "go together"]),
        ({"peers": {"seeds": ["paris"]}}, ["peers.seeds", "'paris'", "host:port"]),
        ({"peers": {"certificate": "a.pem"}}, ["peers.key: found nothing", "a file; add it", "go together"]),
        ({"peers": {"nats": {}}}, ["peers.nats.servers: found nothing", "tls://nats.example.com:4222; add it"]),
        ({"peers": {"nats": {"servers": []}}}, ["peers.nats.servers: found []", "at least one, such as tls://"]),
        ({"peers": {"nats": {"servers": ["nats.example.com"]}}}, ["peers.nats.servers[0]", "tls://host:port"]),
        ({"peers": {"nats": NATS | {"bucket": "a.b"}}}, ["peers.nats.bucket", "'a.b'", "letters, digits"]),
        ({"peers": {"nats": NATS | {"down_after_seconds": 0.5}}}, ["down_after_seconds", "0.5", "of at least 1"]),
        ({"feedback": {"unanswered": "yes"}}, ["feedback.unanswered", "'yes'", "drop, negative"]),
        ({"feedback": {"window_seconds": 0}}, ["feedback.window_seconds", "above 0"]),
        ({"method": {"name": "best"}}, ["method.name", "'best'", "alphaedge"]),
        ({"method": {"peers": 0}}, ["peers", "0"]),
    ],
)
def test_an_invalid_value_is_named(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    found = run("check", "--config", str(written(tmp_path, **changes)))
    assert found.exit_code == 2
    for word in words:
        assert word in found.output


@pytest.mark.parametrize("key", ["edge", "region", "model"])
def test_a_missing_key_is_named(key: str) -> None:
    raw = {name: value for name, value in BASE.items() if name != key}
    with pytest.raises(InvalidValue, match=rf"^{key}: found nothing; allowed: .*; add it$"):
        toml.build(raw, EdgeConfig)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"secret": "none"}, ["secret", "4 characters", "the name of a readable file", "No such file"]),
        ({"secret": "short"}, ["secret", "5 bytes", "16 to 64"]),
        ({"policy": "bad"}, ["policy, line 1", "let all in"]),
        ({"serve": {"token": "empty"}}, ["serve.token", "a token in it"]),
        ({"model": {"factory": "nowhere:make", "fields": FIELDS}}, ["model.factory", "nowhere"]),
        ({"model": {"factory": "noColon", "fields": FIELDS}}, ["model.factory", "package.module:name"]),
        ({"model": {"factory": "builtins:dict", "fields": FIELDS}}, ["model.factory", "returns dict"]),
    ],
)
def test_files_and_factories_that_are_not_right_are_named(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    (tmp_path / "short").write_text("12345")
    (tmp_path / "bad").write_text("let all in")
    (tmp_path / "empty").write_text("\n")
    found = run("check", "--config", str(written(tmp_path, **changes)))
    assert found.exit_code == 2
    for word in words:
        assert word in found.output


def test_a_secret_in_the_place_of_its_file_is_not_shown(tmp_path: Path) -> None:
    secret = "correct horse battery staple"
    found = run("check", "--config", str(written(tmp_path, secret=secret)))
    assert found.exit_code == 2
    assert secret not in found.output


class Own(nn.Module):
    """A module that somebody brings along."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Embedding(100, 4)
        self.out = nn.Linear(6, 1)

    def forward(self, user: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.cat([self.user(user), x], dim=-1))


class Two(Own):
    """One with two outputs."""

    def forward(self, user: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([super().forward(user, x)] * 2, dim=-1)


def test_an_own_module_is_made_from_its_path(tmp_path: Path) -> None:
    here = "tests.edge.test_config:Own"
    tables = [{"fields": ["user"], "parameters": ["user.weight"]}]
    path = written(tmp_path, model={"factory": here, "fields": FIELDS, "tables": tables})
    model = load(path).model.make()
    assert isinstance(model, Model)
    assert [t.rows for t in model.tables] == [100]
    found = run("check", "--config", str(path))
    assert found.exit_code == 0, found.output
    assert "1 id tables" in found.output
    many = [FIELDS[0] | {"size": 101}, FIELDS[1]]
    found = run("check", "--config", str(written(tmp_path, model={"factory": here, "fields": many, "tables": tables})))
    assert found.exit_code == 2
    assert "at most the 100 rows" in found.output
    two = {"factory": "tests.edge.test_config:Two", "fields": FIELDS}
    found = run("check", "--config", str(written(tmp_path, model=two)))
    assert found.exit_code == 2
    assert "one number for each example" in found.output


def certified(folder: Path, **changes: Any) -> Path:
    authority = CertificateFolder(folder / "certs")
    now = dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=100)
    authority.issue("berlin", "DE", ["127.0.0.1"], now=now, days=50)
    files = {"certificate": "certs/berlin.pem", "key": "certs/berlin.key", "authority": "certs/ca.pem"}
    return written(folder, **({"peers": files | changes.pop("peers", {})} | changes))


def test_certificates_are_checked_against_the_configuration(tmp_path: Path) -> None:
    found = run("check", "--config", str(certified(tmp_path)))
    assert found.exit_code == 0, found.output
    assert "berlin in DE, until" in found.output


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"edge": "paris"}, ["edge", "'paris'", "berlin, as the certificate says"]),
        ({"region": "FR"}, ["region", "'FR'", "DE, as the certificate says"]),
        ({"peers": {"address": "elsewhere:8443"}}, ["peers.address", "'elsewhere'", "127.0.0.1"]),
        ({"peers": {"key": "certs/ca.key"}}, ["belongs to another certificate"]),
        ({"peers": {"authority": "certs/berlin.pem"}}, ["not issued by this fleet's authority"]),
        ({"peers": {"certificate": "certs/none.pem"}}, ["peers.certificate", "No such file"]),
    ],
)
def test_certificates_that_do_not_fit_are_named(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    found = run("check", "--config", str(certified(tmp_path, **changes)))
    assert found.exit_code == 2
    for word in words:
        assert word in found.output


def test_a_revoked_certificate_is_named(tmp_path: Path) -> None:
    config = certified(tmp_path)
    CertificateFolder(tmp_path / "certs").revoke(["berlin"], (), now=dt.datetime.now(dt.UTC))
    found = run("check", "--config", str(config))
    assert found.exit_code == 2
    assert "of berlin is revoked" in found.output


def test_a_policy_that_is_not_named_is_checked_if_it_is_there(tmp_path: Path) -> None:
    config = written(tmp_path)
    (tmp_path / "policy.txt").write_text("let all in")
    found = run("check", "--config", str(config))
    assert found.exit_code == 2
    assert "policy, line 1" in found.output


def test_a_configuration_survives_being_written_down() -> None:
    config = toml.build(BASE | {"method": {"peers": 2}, "peers": {"seeds": ["a:1"]}}, EdgeConfig)
    assert toml.build(tomllib.loads(toml.dumps(config)), EdgeConfig) == config
    with pytest.raises(InvalidValue):
        toml.build(BASE | {"seed": -1}, EdgeConfig)
