"""``alphaedge audit``: what it prints, its exit code, and mistakes that end with one clear line."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner, Result

from alphaedge.audit import one_run
from alphaedge.cli import app
from alphaedge.edge.learning.noise_key import LotNoise
from alphaedge.edge.store.journal import Journal

from ..audit.edges import EAGER, PRIVATE, ROUND, checksums, edge_folder, record
from ..edge.processes import CONFIG, Edge

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

    def __call__(self, edges: Sequence[int], *shape: int) -> Tensor:
        return torch.zeros(len(edges), *shape)


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


def test_a_live_edge_is_audited_by_its_own_folder(tmp_path: Path) -> None:
    path = edge_folder(tmp_path, 8, 40, model=EAGER)
    result = audit("--edge-config", str(path), "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["verdict"].startswith("This edge promises nothing, since method.privacy is off")
    assert (found["edge"], found["privacy"], found["broken"]) == ("berlin", None, False)
    assert (found["publication"]["learned"], found["publication"]["later"]) == (320, 40)
    assert found["publication"]["loss_threshold"]["auc"] > 0.7


def test_a_live_edge_whose_noise_is_missing_breaks_its_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = edge_folder(tmp_path, 12, 0, method=PRIVATE)
    assert audit("--edge-config", str(path), "--canaries", "100").exit_code == 0
    monkeypatch.setattr(LotNoise, "__call__", lambda self, edges, *shape: torch.zeros(len(edges), *shape))
    result = audit("--edge-config", str(path), "--canaries", "100", "--json", "-")
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert found["verdict"].startswith("This contradicts the promised epsilon 2")
    assert found["broken"]


def _no_data(folder: Path) -> None:
    Edge(folder)


def _no_round(folder: Path) -> None:
    record(Edge(folder).path, 60)


def _another_model(folder: Path) -> None:
    edge_folder(folder, 1, 0)
    Edge(folder, model={**CONFIG["model"], "hidden": [8]})


def _nothing_published(folder: Path) -> None:
    edge_folder(folder, 2, 30, method={**PRIVATE, "privacy": {"lot_batches": 50}})


def _no_journal(folder: Path) -> None:
    edge_folder(folder, 1, 0)
    (folder / "data" / "journal.db").unlink()


def _cleaned(folder: Path, left: int, **changes: object) -> None:
    path = edge_folder(folder, 8, 0, **changes)
    journal = Journal(path.parent / "data" / "journal.db")
    while journal.clean_up(before=1.5, learned=8 * ROUND - left, negative=False, now=3.0).more:
        pass
    journal.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "config: found '{}/edge.toml'; allowed: a readable file"),
        (_no_data, "data: found '{}/data'; allowed: the data folder of an edge that has run"),
        (_no_round, "checkpoints: found nothing; allowed: one of this model; an edge writes it at the end of"),
        (_another_model, "checkpoints: found 'those of other models only'; allowed: one of this model"),
        (_nothing_published, "publication: found 0; allowed: 1 or more"),
        (_no_journal, "journal.db: there is no journal"),
        (lambda f: _cleaned(f, 0), "journal: events with a label: found 0; allowed: at least 20; it keeps those"),
        (lambda f: _cleaned(f, 7), "journal: events with a label: found 7; allowed: at least 20; it keeps those"),
        (
            lambda f: _cleaned(f, 70, method=PRIVATE),
            "journal: events with a label: found 70; allowed: at least 140 with method.privacy: 4 lots of 10 after a "
            "first one of 100",
        ),
    ],
)
def test_a_live_edge_that_cannot_be_audited_is_refused_in_one_line(
    make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    make(tmp_path)
    before = checksums(tmp_path)
    result = audit("--edge-config", str(tmp_path / "edge.toml"))
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("error")]
    assert said.format(tmp_path) in line
    assert checksums(tmp_path) == before


@pytest.mark.parametrize(
    ("option", "value"),
    [("--data", "synthetic"), ("--epsilon", "1.0"), ("--user", "user"), ("--edge", "shop"), ("--config", "a.toml")],
)
def test_options_of_simulations_are_refused_beside_a_live_edge(option: str, value: str) -> None:
    result = audit("--edge-config", "edge.toml", option, value)
    assert result.exit_code == 2
    assert f"{option}: found " in result.output
    assert value in result.output
    assert "allowed: nothing beside --edge-config" in result.output


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
