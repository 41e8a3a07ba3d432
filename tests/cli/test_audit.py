"""``alphaedge audit``: what it prints, its exit code, and mistakes that end with one clear line."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner, Result

from alphaedge.audit import one_run
from alphaedge.cli import app

SMALL = "[store]\nedges = 2\nevents = 1600\nitems = 100\nusers = 400\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SMALL, encoding="utf-8")
    return file


def audit(*args: str) -> Result:
    return CliRunner().invoke(app, ["audit", "--quick", *args])


class Silence:
    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self, edge: int, *shape: int) -> Tensor:
        return torch.zeros(*shape)


def test_it_says_that_a_promise_stands_and_what_peers_learn_with_and_without(config: Path) -> None:
    result = audit("--config", str(config), "--epsilon", "1", "--user", "user", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["verdict"].startswith("This fits the promise of epsilon 1")
    assert found["canaries"]["canaries"] == 200
    assert found["epsilon_observed"] <= 1
    assert found["privacy"]["user"] == "user"
    assert found["private"]["rare_ids"]["told"] == 0 < found["plain"]["rare_ids"]["read"]
    assert found["plain"]["lira"]["auc"] > found["private"]["lira"]["auc"]


def test_a_broken_promise_is_the_first_line_and_the_exit_code(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_run, "SeededNoise", Silence)
    result = audit("--config", str(config), "--epsilon", "2")
    assert result.exit_code == 1, result.output
    assert "This contradicts the promised epsilon 2: at least 3." in result.output


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--canaries", "3"], "canaries: found 3; allowed: from 20"),
        (["--user", "nobody"], "privacy.user"),
        (["--seed", "-1"], "seed"),
        (["--label", "bought"], "name the file of the table with --table"),
    ],
)
def test_a_mistake_ends_with_what_is_allowed(args: list[str], said: str) -> None:
    result = audit(*args)
    assert result.exit_code == 2, result.output
    assert said in result.output
