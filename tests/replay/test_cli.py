"""``alphaedge replay``: its output, files, errors and exit codes."""

import asyncio
import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner, Result

from alphaedge.cli import app
from alphaedge.cli.dataset import load_dataset
from alphaedge.cli.replay import TIME_UNIT_SECONDS
from alphaedge.errors import EdgeError
from alphaedge.inference.client import EdgeClient, Predictions
from alphaedge.simulation.batches import Labels
from alphaedge.simulation.catalog import CATALOG
from alphaedge.simulation.config import build
from alphaedge.simulation.task import make_data
from tests.data.archives import pack
from tests.edge.processes import Edge, wait_for

from .edges import SMALL, TOKEN, client_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "shops.csv"


def replay(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, args)], env={"COLUMNS": "100"})


def refused(*args: str | Path) -> str:
    """The one line of an error."""
    found = replay(*args)
    assert found.exit_code == 2, found.output
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("error")]
    return line


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token.txt"
    path.write_text(TOKEN + "\n")
    return path


def test_a_store_is_replayed_to_two_edges_and_a_folder_has_the_result(
    pair: list[Edge], token: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "out", tmp_path / "result.json"
    found = replay(*(e.url for e in pair), *SMALL, "--token-file", token, "--out", out, "--json", file)
    assert found.exit_code == 0, found.output
    assert f"0 -> {pair[0].url}, " in found.output
    assert f"1 -> {pair[1].url}, " in found.output
    for word in ("AUC", "pooled", "p50", "p95", "p99", "req/s", "unsent", "accepted", f"Results in {out}"):
        assert word in found.output
    summary = json.loads(file.read_text())
    assert json.loads((out / "summary.json").read_text()) == summary
    assert (out / "replay.png").read_bytes().startswith(b"\x89PNG")
    assert [e["url"] for e in summary["edges"]] == [e.url for e in pair]
    assert summary["total"]["events"] == summary["total"]["feedback"]["accepted"] > 600
    assert all(e["series"][0]["score"] is not None for e in summary["edges"])


def test_with_a_dash_only_the_result_is_printed(pair: list[Edge]) -> None:
    found = replay(pair[0].url, *SMALL, "--rows", "60", "--map", f"2={pair[0].url}", "--json", "-")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert [(e["edge"], e["events"]) for e in result["edges"]] == [("2", 60)]
    assert "edges" in found.stderr


def test_a_speed_a_delay_and_a_limit_are_applied(pair: list[Edge]) -> None:
    found = replay(
        pair[0].url, *SMALL, "--speed", "21600x", "--delay", "exp:2h", "--limit-seconds", "2", "--per-request", "3",
        "--connections", "2", "--json", "-",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert (result["speed"], result["delay"]) == (21_600.0, "exp:7200s")
    assert (result["per_request"], result["connections"], result["batch_size"]) == (3, 2, 20)
    total = result["total"]
    assert 0 < total["events"] < total["planned"]
    assert total["feedback"]["accepted"] == total["events"]


def test_a_wrong_model_is_refused_with_all_that_differs_before_anything_is_sent(pair: list[Edge]) -> None:
    columns = ["--time", "when", "--edge", "shop", "--label", "sold"]
    line = refused(pair[0].url, "--table", EXAMPLE, *columns)
    assert line.startswith(f"error {pair[0].url}: its model 'shop' does not fit the data: ")
    for part in (
        "field user: not in the data",
        "field kind: not in the model",
        "field numbers: not in the data; the model takes it",
    ):
        assert part in line, line


def test_a_token_is_asked_for_before_anything_is_sent(pair: list[Edge], tmp_path: Path) -> None:
    assert refused(pair[1].url, *SMALL).startswith(f"error {pair[1].url}: 401: send the token")
    assert str(tmp_path / "none") in refused(pair[1].url, *SMALL, "--token-file", tmp_path / "none")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "url: found 'none'; allowed: at least one address of an edge, such as http://127.0.0.1:8080"),
        (["nowhere"], "url: found 'nowhere'; allowed: http://host:port or https://host:port"),
        (
            ["http://a", "http://b", "http://c", "http://d"],
            "url: found '4 addresses'; allowed: at most one for each of",
        ),
        (["--map", "x=http://a"], "map: found 'x'; allowed: one of 0, 1, 2"),
        (
            ["http://a", "--speed", "fast"],
            "speed: found 'fast'; allowed: max, or a multiple of real time, such as 100x",
        ),
        (["http://a", "--delay", "soon"], "delay: found 'soon'; allowed: a number followed by ms, s, m, h, d or w"),
        (["http://a", "--connections", "0"], "connections: found 0; allowed: a whole number of at least 1"),
        (["http://a", "--rows", "0"], "rows: found 0; allowed: a whole number of at least 1"),
        (["http://a", "--data", "nothing"], "data: found 'nothing'; allowed: one of synthetic, movielens"),
        (["http://a", "--table", "t.csv", "--time", "x"], "table: file: found 't.csv'; allowed: a CSV or Parquet file"),
        (["http://a", "--time-unit", "x"], "time_unit: found 'x'; allowed: a number followed by ms"),
        (["http://a", "--json", "."], "json: found '.'; allowed: a file, or - to print"),
        (["https://a", "--authority", "none.pem"], "authority: found 'none.pem'; allowed: a file with a certificate"),
    ],
)
def test_invalid_options_are_refused_by_name(args: list[str], said: str) -> None:
    assert said in refused(*args, *SMALL)


def test_an_edge_that_is_not_there_is_named() -> None:
    assert refused("http://127.0.0.1:9", *SMALL).startswith("error http://127.0.0.1:9: no answer (")


def test_ctrl_c_stops_it_early_with_a_result(pair: list[Edge]) -> None:
    command = [sys.executable, "-m", "alphaedge", "replay", pair[0].url, *SMALL, "--speed", "500x", "--json", "-"]
    pending = _asked(pair[0])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # More than it has connections: the client has read at least one of the answers.
        wait_for(lambda: _asked(pair[0]) > pending + 4, "predictions")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)  # it would take three minutes
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, stderr.decode()
    result = json.loads(stdout)
    assert result["stopped"]
    assert 0 < result["total"]["events"] < result["total"]["planned"]
    assert "stopped early" in stderr.decode()


def _asked(edge: Edge) -> int:
    """Requests for predictions that an edge has answered, by its own count."""

    async def main() -> int:
        async with client_of(edge) as client:
            page, _ = await client._request("GET", "/metrics")
            return sum(
                int(float(line.split()[-1]))
                for line in page.decode().splitlines()
                if line.startswith('alphaedge_requests_total{endpoint="infer",status="200"}')
            )

    return asyncio.run(main())


def test_only_the_model_is_printed() -> None:
    found = replay("--table", EXAMPLE, "--time", "when", "--edge", "shop", "--label", "sold", "--print-config")
    assert found.exit_code == 0, found.output
    assert {f["name"] for f in tomllib.loads(found.stdout)["model"]["fields"]} == {"item", "kind", "price"}


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "out: found" in refused("http://127.0.0.1:9", *SMALL, "--out", tmp_path / "file")


def test_the_noise_of_a_data_set_is_the_simulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHAEDGE_DATA", str(tmp_path))
    users = "".join(f"{1 + e}::F::1::10::{e}8067\n" for e in range(10))
    ratings = "".join(f"{1 + i % 10}::{1 + i % 3}::{1 + i * i % 5}::{i}\n" for i in range(2000))
    movies = "".join(f"{m}::Film {m} (1995)::Drama\n" for m in (1, 2, 3))
    files = {"users.dat": users, "ratings.dat": ratings, "movies.dat": movies}
    pack(tmp_path, "ml-1m", {f"ml-1m/{name}": text.encode() for name, text in files.items()})
    printed = replay("--data", "movielens", "--print-config")
    kinds = {f["name"]: f["kind"] for f in tomllib.loads(printed.stdout)["model"]["fields"]}
    assert (kinds["user"], kinds["gender"], kinds["genres"], kinds["year"]) == ("id", "code", "set", "number")
    settings = build({"data": "movielens"})
    raw, found = make_data(settings, 0), load_dataset(settings, Console())
    scored = Labels.draw(raw, 1, settings.conditions, 0, torch.float32).scored.flatten()
    assert torch.equal(torch.cat([s.labels for s in found.streams]), scored)
    assert (torch.cat([s.labels for s in raw.streams]) != scored).any()


def test_times_have_the_unit_of_their_data_set() -> None:
    assert set(TIME_UNIT_SECONDS) <= set(CATALOG)
    assert TIME_UNIT_SECONDS["tafeng"] == 86_400


def test_failures_exit_with_1_and_are_counted(pair: list[Edge], monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(client: EdgeClient, inputs: Mapping[str, Any]) -> Predictions:
        raise EdgeError(client.url, "400: refused", 400)

    monkeypatch.setattr(EdgeClient, "predict", refuses)
    found = replay(pair[0].url, *SMALL, "--rows", "50")
    assert found.exit_code == 1, found.output
    assert "5 requests were refused or never answered" in found.output
    assert "400: refused (5 times)" in found.output
