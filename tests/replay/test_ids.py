"""Ids of a table reach an edge as the table has them, not as the codes that they get when it is read."""

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from alphaedge import Dataset
from alphaedge.cli import app
from alphaedge.data.table import Table, load
from alphaedge.inference.client import EdgeClient, Predictions
from alphaedge.inference.client_codec import encode_request
from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.inference.server_codec import parse_request
from alphaedge.inference.tensors import JSON_LENGTH_HEADER
from alphaedge.replay.options import ReplayOptions
from alphaedge.replay.run import replay
from tests.edge.processes import Edge

ROWS = 200
USERS = [1000 + 7 * (i % 40) for i in range(ROWS)]
ITEMS = [f"item-{9 * i % 80}" for i in range(ROWS)]
COLUMNS = {"time": "when", "edge": "shop", "label": "sold", "ids": ("user", "item")}


def sales(folder: Path) -> Path:
    """A table of one shop whose users are numbers that do not start at 0, and whose items are text."""
    frame = pl.DataFrame(
        {"when": range(ROWS), "shop": ["west"] * ROWS, "user": USERS, "item": ITEMS, "sold": [0, 1] * (ROWS // 2)}
    )
    file = folder / "sales.parquet"
    frame.write_parquet(file)
    return file


class Recorder:
    """A client that keeps the inputs that the server would have parsed."""

    url = "http://edge"

    def __init__(self) -> None:
        self.inputs: dict[str, list[Any]] = {}
        self._next = 1

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        body, headers = encode_request(inputs)
        for name, values in parse_request(body, headers[JSON_LENGTH_HEADER]).inputs.items():
            self.inputs.setdefault(name, []).extend(values.tolist())
        count = len(next(iter(inputs.values())))
        ids = np.arange(self._next, self._next + count)
        self._next += count
        return Predictions(ids, np.zeros(count, np.float32), 0.0)

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        return FeedbackCounts(len(ids), 0, 0, 0)


def sent(data: Dataset) -> dict[str, list[Any]]:
    client, options = Recorder(), ReplayOptions(connections=1, batch_size=20)
    streams = {"west": data.streams[0]}
    asyncio.run(replay(streams, {"west": client}, options, task=data.task, values=data.values))
    return client.inputs


def test_a_tables_ids_are_sent_as_text(tmp_path: Path) -> None:
    inputs = sent(load(Table(file=str(sales(tmp_path)), **COLUMNS)))
    assert inputs["user"] == [str(user).encode() for user in USERS]
    assert inputs["item"] == [item.encode() for item in ITEMS]


def test_ids_without_raw_values_are_sent_as_their_codes(store: Dataset) -> None:
    assert store.values == {}
    assert sent(store)["user"] == store.streams[0].inputs["user"].tolist()


def test_the_command_sends_a_tables_ids_as_text_to_a_real_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ["--table", str(sales(tmp_path)), "--time", "when", "--edge", "shop", "--label", "sold"]
    table += ["--id", "user", "--id", "item"]
    printed = CliRunner().invoke(app, ["replay", "--print-config", *table])
    assert printed.exit_code == 0, printed.output
    sent: list[str] = []
    predict = EdgeClient.predict

    async def recording(client: EdgeClient, inputs: Mapping[str, Any]) -> Predictions:
        sent.extend(inputs["item"])
        return await predict(client, inputs)

    monkeypatch.setattr(EdgeClient, "predict", recording)
    edge = Edge(tmp_path / "edge", **tomllib.loads(printed.stdout))
    try:
        edge.start()
        done = CliRunner().invoke(app, ["replay", edge.url, *table, "--connections", "1"])
    finally:
        edge.end()
    assert done.exit_code == 0, done.output
    assert sent == ITEMS
