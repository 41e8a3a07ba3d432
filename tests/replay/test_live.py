"""Replays to live edges: scores are those of their predictions, labels are learned, and a crash loses nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from alphaedge import Dataset
from alphaedge.inference.client import EdgeClient, Predictions
from alphaedge.inference.feedback import FeedbackCounts
from alphaedge.replay.options import Delay, ReplayOptions
from alphaedge.replay.plan import speed_for
from alphaedge.replay.result import ReplayResult
from alphaedge.replay.run import replay
from tests.edge.processes import Edge, wait_for

from .edges import BATCH, client_of, learned


class Recorder:
    """A client that records predictions in the order of requests, and the time and value of each label."""

    def __init__(self, client: EdgeClient) -> None:
        self.client, self.url = client, client.url
        self.predicted: list[tuple[float, list[int]]] = []
        self.labelled: dict[int, tuple[float, float]] = {}
        self.predictions: list[float] = []

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        found = await self.client.predict(inputs)
        self.predicted.append((asyncio.get_running_loop().time(), found.ids.tolist()))
        self.predictions += found.predictions.tolist()
        return found

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        found = await self.client.feedback(ids, labels)
        moment = asyncio.get_running_loop().time()
        self.labelled |= {i: (moment, y) for i, y in zip(ids, labels, strict=True)}
        return found


async def replayed(edges: list[Edge], data: Dataset, options: ReplayOptions) -> tuple[ReplayResult, list[Recorder]]:
    names = data.edge_names[: len(edges)]
    clients = {name: Recorder(client_of(edge)) for name, edge in zip(names, edges, strict=True)}
    streams = dict(zip(names, data.streams, strict=False))
    try:
        return await replay(streams, clients, options, task=data.task), list(clients.values())
    finally:
        for one in clients.values():
            await one.client.close()


def test_scores_are_those_of_the_predictions_and_everything_is_learned(pair: list[Edge], store: Dataset) -> None:
    before = [learned(edge) for edge in pair]
    options = ReplayOptions(per_request=10, connections=1, batch_size=BATCH)
    found, recorders = asyncio.run(replayed(pair, store, options))
    assert found.delivered
    for place, (one, client) in enumerate(zip(found.edges, recorders, strict=True)):
        labels = store.streams[place].labels.numpy()
        predictions = np.array(client.predictions)  # over one connection they come in the order of events
        assert one.events == one.feedback.accepted == len(labels) == len(predictions)
        cut = range(0, len(labels) // BATCH * BATCH, BATCH)
        parts = [(labels[b : b + BATCH], predictions[b : b + BATCH]) for b in cut]
        wanted = [roc_auc_score(y, p) for y, p in parts if len(set(y)) == 2]
        assert one.score == pytest.approx(np.mean(wanted))
        assert one.pooled == pytest.approx(roc_auc_score(labels, predictions))
        assert [client.labelled[i][1] for _, ids in client.predicted for i in ids] == labels.tolist()
        assert (one.requests, one.failures, one.latency.count) == (-(-len(labels) // 10), 0, -(-len(labels) // 10))
    known = [before[e] + len(store.streams[e]) // BATCH for e in range(2)]
    wait_for(lambda: all(learned(e) >= n for e, n in zip(pair, known, strict=True)), "batches to be learned")


def test_delayed_labels_are_sent_when_they_are_due_and_not_before(pair: list[Edge], store: Dataset) -> None:
    data = store.window(300)
    events = data.streams[0]
    # The delay is a quarter of the data's whole time; over one connection predictions come in the order of events.
    options = ReplayOptions(per_request=5, connections=1, delay=Delay(0.25), batch_size=BATCH)
    speed = speed_for(data.streams[:1], options, 1.5)

    async def main() -> tuple[float, ReplayResult, Recorder]:
        started = asyncio.get_running_loop().time()
        found, (client,) = await replayed(pair[:1], data, replace(options, speed=speed))
        return started, found, client

    started, found, client = asyncio.run(main())
    assert found.delivered
    assert found.total.feedback.accepted == len(events)
    times = events.times - events.times[0]
    for request, (_, ids) in enumerate(client.predicted):
        last_event = min(5 * request + 4, len(events) - 1)
        due = started + (float(times[last_event]) + 0.25) / speed
        assert all(client.labelled[i][0] >= due for i in ids)


class Crashing:
    """A client whose edge is killed before its n-th request for predictions leaves, and started again in a moment."""

    def __init__(self, client: EdgeClient, edge: Edge, after: int) -> None:
        self.client, self.url = client, client.url
        self.labelled: dict[int, float] = {}
        self._edge, self._left, self._killing = edge, after, asyncio.Lock()
        self.restart: asyncio.Task[None] | None = None

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        async with self._killing:
            self._left -= 1
            if self._left == 0:
                await asyncio.to_thread(self._edge.kill)
                self.restart = asyncio.create_task(asyncio.to_thread(self._edge.start))
        return await self.client.predict(inputs)

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        found = await self.client.feedback(ids, labels)
        self.labelled |= dict(zip(ids, labels, strict=True))
        return found


def test_an_edge_that_is_killed_and_comes_back_gets_every_label(pair: list[Edge], store: Dataset) -> None:
    edge, events = pair[1], store.streams[1]
    count = len(events)

    async def main() -> tuple[ReplayResult, Crashing]:
        options = ReplayOptions(per_request=2, connections=3, delay=Delay(0.05), batch_size=BATCH, patience=240.0)
        options = replace(options, speed=speed_for([events], options, 3.0))
        async with client_of(edge) as client:
            crashing = Crashing(client, edge, after=count // 8)
            found = await replay({"shop": events}, {"shop": crashing}, options, task=store.task)
            assert crashing.restart is not None
            await crashing.restart
            return found, crashing

    found, client = asyncio.run(main())
    counts = found.total.feedback
    assert found.delivered
    assert found.total.events == count
    assert counts.accepted + counts.known == count
    assert (counts.expired, counts.unknown, counts.undelivered, found.total.failures) == (0, 0, 0, 0)
    assert found.total.retries > 0
    assert len(client.labelled) == count
