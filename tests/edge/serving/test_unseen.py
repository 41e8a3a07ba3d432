"""Predictions that nobody received do not count as shown: their silence is no label."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np

from alphaedge.edge.config import load
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.serving.http import EdgeApp
from alphaedge.edge.serving.service import PredictionService

from ..processes import Edge

WINDOW_SECONDS = 0.1
Message = dict[str, Any]


class Serving:
    """An edge in this process, that learns 0 where no label comes. now: the time by its clock."""

    def __init__(self, folder: Path) -> None:
        feedback = {"window_seconds": WINDOW_SECONDS, "unanswered": "negative"}
        config, self.now = load(Edge(folder, feedback=feedback).path), 1.0
        self.service = PredictionService(config, folder, lambda _: lambda: self.now)
        LearningLoop(config, folder)  # hands parameters over
        self.app = EdgeApp(self.service, "1")

    @property
    def pending(self) -> int:
        return self.service.metrics.server_status().pending

    async def infer(self, *, hang_up: bool) -> int:
        """Send a request with two examples, and hang up at once or stay; return the status of the answer."""
        inputs = [
            {"name": "user", "shape": [2], "datatype": "INT64", "data": [1, 2]},
            {"name": "item", "shape": [2], "datatype": "INT64", "data": [1, 2]},
            {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [0, 0, 0, 0]},
        ]
        messages = [{"type": "http.request", "body": json.dumps({"inputs": inputs}).encode()}]
        messages += [{"type": "http.disconnect"}] if hang_up else []
        sent: list[Message] = []

        async def receive() -> Message:
            return messages.pop(0) if messages else await asyncio.Event().wait() and {}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": "/v2/models/shop/infer", "client": ("127.0.0.1", 1),
            "headers": [(b"content-length", b"%d" % len(messages[0]["body"]))],
        }  # fmt: skip
        await self.app(scope, receive, send)
        return int(sent[0]["status"])

    async def negatives(self) -> int:
        """Let the feedback window pass; return how many predictions became negatives."""
        self.now += 10.0
        while self.pending:
            await asyncio.sleep(0)
        return self.service.journal.last_feedback()


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Serving]:
    made = Serving(folder)
    cleaning = asyncio.create_task(made.service.clean_up_forever())
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        cleaning.cancel()
        made.service.close()


def test_only_predictions_that_a_caller_received_become_negatives(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as edge:
            assert await edge.infer(hang_up=False) == 200
            assert await edge.infer(hang_up=True) == 400
            assert await edge.infer(hang_up=False) == 200
            assert await edge.negatives() == 4

    asyncio.run(test())


def test_nothing_of_a_request_that_fails_midway_becomes_a_negative(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as edge:
            count = 20_000
            some = {"user": np.arange(count), "item": np.arange(count), "x": np.zeros((count, 2), np.float32)}
            asked = asyncio.create_task(edge.service.predict(some))
            while edge.pending < 1000:
                await asyncio.sleep(0)
            assert not asked.done()
            asked.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asked
            assert await edge.infer(hang_up=False) == 200  # in a later commit
            assert await edge.negatives() == 2

    asyncio.run(test())


def test_an_edge_that_stops_withdraws_what_nobody_received(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as edge:
            assert await edge.infer(hang_up=True) == 400
            assert await edge.infer(hang_up=False) == 200
        service = PredictionService(edge.service.config, tmp_path, lambda _: lambda: 1.0)
        assert service.journal.pending() == 2
        service.close()

    asyncio.run(test())
