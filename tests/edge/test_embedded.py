"""An edge embedded in a process: ``alphaedge.Edge``."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import alphaedge
from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.store.journal import Journal
from alphaedge.errors import ParametersError
from alphaedge.inference.feedback import FeedbackCounts

from .processes import BATCH, EVERY, Edge, events

USERS = {"user": ["ann", "bob"], "item": [2, 3], "x": [[0.0, 0.0], [0.0, 0.0]]}


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test, 120))


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def children() -> set[int]:
    return {int(p) for path in Path("/proc/self/task").iterdir() for p in (path / "children").read_text().split()}


def test_an_embedded_edge_predicts_learns_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = Edge(tmp_path).path

    async def test() -> None:
        before = children()
        async with alphaedge.Edge(path) as edge:
            ids, first = await edge.predict(USERS)
            assert first.shape == (2,)
            some = events(30 * BATCH)
            given = {"user": [e[0] for e in some], "item": np.array([e[1] for e in some])}
            some_ids, _ = await edge.predict({**given, "x": torch.tensor([e[2] for e in some])})
            found = await edge.feedback(some_ids, [e[3] for e in some])
            assert found == FeedbackCounts(len(some), 0, 0, 0)
            await until(lambda: (status := edge.status()) and status.batches >= 30 // EVERY * EVERY)
            _, (even, odd) = await edge.predict(USERS)
            assert even > odd
            status = edge.status()
            assert status is not None
            assert status.scores > 0
        assert children() == before
        with pytest.raises(alphaedge.AlphaEdgeError, match="not running"):
            await edge.predict(USERS)
        async with alphaedge.Edge(str(path)) as again:  # another time, the same edge
            assert (await again.feedback(ids, [1, 0])).accepted == 2

    run(test())


def test_an_id_that_is_missing_is_the_same_as_over_http(tmp_path: Path) -> None:
    path = Edge(tmp_path).path

    async def test() -> None:
        async with alphaedge.Edge(path) as edge:
            for user in (None, float("nan"), "", "None", "nan"):
                await edge.predict({"user": ["ann", user], "item": [2, 3], "x": [[0.0, 0.0]] * 2})

    run(test())
    config = load(path)
    features = Features(config.model.fields, b"")
    journal = Journal(tmp_path / "data" / "journal.db", layout=features.layout, readonly=True)
    users = features.from_bytes([example for _, example in journal.predictions(0, 100)])["user"][1::2].tolist()
    journal.close()
    assert users[0] == users[1] == users[2]
    assert len(set(users[2:])) == 3, "text is text"


def test_bad_input_is_refused_by_name(tmp_path: Path) -> None:
    path = Edge(tmp_path).path

    async def test() -> None:
        async with alphaedge.Edge(path) as edge:
            for inputs, words in (
                ({**USERS, "item": ["a", "b", "c"]}, "inputs.item"),
                ({"user": ["ann"]}, "also item"),
                ({**USERS, "x": [[1.0], [2.0, 3.0]]}, "inputs.x"),
                ({**USERS, "user": "ann"}, "inputs.user"),
                ({**USERS, "item": [2, 10**5000]}, "text or a shorter number"),
            ):
                with pytest.raises(alphaedge.InvalidValue, match=words):
                    await edge.predict(inputs)
            with pytest.raises(alphaedge.InvalidValue, match="one label for each id"):
                await edge.feedback([1, 2], [1])

    run(test())


def test_a_learner_that_does_not_start_is_an_error_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = Edge(tmp_path).path

    async def test() -> None:
        before = children()
        with pytest.raises(ParametersError, match="has not written any parameters"):
            async with alphaedge.Edge(path, start_timeout=0.0):
                pass
        assert children() == before

    run(test())
