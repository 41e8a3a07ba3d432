"""From a table to a running fleet: what the simulation learned is what real edges predict with."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import torch

from alphaedge.edge.store.status import read_learner_status
from alphaedge.fleet.layout import Fleet
from alphaedge.scoring import auc

from ..simulation.fleets import predictions, seen
from .ports import free_ports
from .shops import SHOPS, shop_frame, write
from .test_warm_start import SIZE, settings

ROWS, CUT = 8000, 6420  # neither the simulation nor the replay ends with a whole batch
SPEED = "4000x"  # a minute between two events: the replay takes half a minute


def alphaedge(*words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "alphaedge", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def fleet_folder(tmp_path: Path) -> Iterator[Path]:
    """A fleet that starts where the simulation of the first part of the table ended, with its edges running."""
    part = write(shop_frame(ROWS)[:CUT], tmp_path / "part.csv")
    alphaedge(
        *("simulate", "--table", part, "--time", "when", "--edge", "shop", "--label", "sold"),
        *("--id", "item", "--category", "kind", "--number", "price", "--batch-size", str(SIZE)),
        *("--aggregate-every", "6", "--peers", "2", "--methods", "alphaedge", "--seeds", "1", "--jobs", "1"),
        *("--out", tmp_path / "results"),
    )
    folder, port = tmp_path / "fleet", free_ports(2 * len(SHOPS))
    ports = ("--port", str(port), "--peer-port", str(port + len(SHOPS)))
    alphaedge("fleet", "init", "--from", tmp_path / "results", "--out", folder, *ports)
    try:
        alphaedge("fleet", "up", folder, "--detach")
        yield folder
    finally:
        alphaedge("fleet", "down", folder)


@pytest.mark.timeout(600)
def test_real_edges_go_on_where_the_simulation_of_their_table_ended(fleet_folder: Path, tmp_path: Path) -> None:
    frame = shop_frame(ROWS)
    rest = write(frame[CUT:], tmp_path / "rest.csv")
    result = tmp_path / "replay.json"
    alphaedge(
        *("replay", "--fleet", fleet_folder, "--table", rest, "--speed", SPEED, "--per-request", "1"),
        *("--json", result),
    )
    replayed = {edge["edge"]: edge for edge in json.loads(result.read_bytes())["edges"]}
    world = seen(settings=settings(write(frame, tmp_path / "whole.csv"))).world
    differences = []
    for number, place in enumerate(sorted(SHOPS)):
        labels = frame.filter(pl.col("shop") == place)["sold"].to_torch().double()
        first = frame[:CUT].filter(pl.col("shop") == place).height
        expected = predictions(world, number).flatten().double()[first:]
        score = float(auc(expected.unsqueeze(0), labels[first:].unsqueeze(0)))
        differences.append(replayed[place]["pooled"] - score)
    assert abs(torch.tensor(differences).mean()) <= 0.002, differences
    for edge in Fleet.load(fleet_folder).edges:
        status = read_learner_status(fleet_folder / edge.name / "data" / "status.json")
        assert status is not None
        assert status.adopted_rows == 0, "every id was known"
        assert status.aggregations > ROWS * 0.8 // len(SHOPS) // SIZE // 6, "it has mixed since"
