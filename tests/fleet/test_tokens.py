"""The tokens of a fleet folder: who gets one, where it is, and who sends it."""

import datetime as dt
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.edge.check import check_edge
from alphaedge.edge.config import load
from alphaedge.errors import InvalidValue
from alphaedge.fleet.data import open_fleet
from alphaedge.fleet.folders import DATA_FILE
from alphaedge.fleet.from_results import init_fleet
from alphaedge.fleet.layout import FLEET_FILE, EdgeAddress, Fleet
from alphaedge.toml import dumps

from ..edge.processes import Edge
from ..replay.edges import SMALL, TOKEN, pair
from .test_warm_start import NOW

__all__ = ["pair"]


def test_an_edge_on_a_machine_of_its_own_asks_for_a_token_that_only_its_owner_reads(
    results: Path, tmp_path: Path
) -> None:
    fleet = init_fleet(results, tmp_path / "fleet", now=NOW, host="{edge}.example.com", with_state=False)
    for edge in fleet.edges:
        own = tmp_path / "fleet" / edge.name
        config = load(own / "edge.toml")
        assert (config.serve.host, config.serve.token) == ("0.0.0.0", "token.txt")
        assert (own / "token.txt").stat().st_mode & 0o777 == 0o600
        assert "token: callers must send it" in check_edge(config, own, NOW + dt.timedelta(1))
    assert len(set(open_fleet(tmp_path / "fleet").tokens().values())) == len(fleet.edges), "one does not open another"


def test_an_edge_that_only_this_machine_reaches_asks_for_no_token(fleet: Path) -> None:
    assert set(open_fleet(fleet).tokens().values()) == {None}
    assert not list(fleet.rglob("token.txt"))


def test_a_token_that_is_configured_and_missing_is_named(results: Path, tmp_path: Path) -> None:
    fleet = init_fleet(results, tmp_path / "fleet", now=NOW, host="{edge}.example.com", with_state=False)
    file = tmp_path / "fleet" / fleet.edges[0].name / "token.txt"
    file.unlink()
    with pytest.raises(InvalidValue, match=rf"serve\.token: found '{file}'"):
        open_fleet(tmp_path / "fleet").tokens()


def test_a_replay_sends_each_edge_of_a_fleet_the_token_of_its_folder(pair: list[Edge], tmp_path: Path) -> None:
    for edge in pair:
        (tmp_path / edge.folder.name).symlink_to(edge.folder)
    edges = [
        EdgeAddress(name=edge.folder.name, place=str(number), region="", host="127.0.0.1", port=port, peer_port=1)
        for number, edge in enumerate(pair)
        for port in [int(edge.url.rpartition(":")[2])]
    ]
    fleet = Fleet(data="synthetic", model="shop", local=True, edges=tuple(edges))
    (tmp_path / FLEET_FILE).write_text(dumps(fleet))
    (tmp_path / DATA_FILE).write_text('data = "synthetic"\n')
    assert open_fleet(tmp_path).tokens() == {"0": None, "1": TOKEN}
    found = CliRunner().invoke(app, ["replay", "--fleet", str(tmp_path), *SMALL, "--rows", "40", "--json", "-"])
    assert found.exit_code == 0, found.output
    assert [one["url"] for one in msgspec.json.decode(found.stdout)["edges"]] == [edge.url for edge in pair]
