"""Replays to real edges: scores are those of their predictions, outcomes are learned, and a crash loses nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from alphaedge import Dataset
from alphaedge.inference.client import EdgeClient, FeedbackCounts, Predictions
from alphaedge.replay.pace import Delay, Options
from alphaedge.replay.plan import speed_for
from alphaedge.replay.result import ReplayResult
from alphaedge.replay.run import Progress, replay
from tests.edge.processes import Edge, wait_for

from .edges import BATCH, client_of, learned


class Watched:
    """A client that remembers what was predicted, in the order of asking, and when what was told."""

    def __init__(self, client: EdgeClient) -> None:
        self.client, self.url = client, client.url
        self.asked: list[tuple[float, list[int]]] = []
        self.told: dict[int, tuple[float, float]] = {}
        self.predictions: list[float] = []

    async def predict(self, inputs: Mapping[str, Any]) -> Predictions:
        found = await self.client.predict(inputs)
        self.asked.append((asyncio.get_running_loop().time(), found.ids.tolist()))
        self.predictions += found.predictions.tolist()
        return found

    async def feedback(self, ids: Sequence[int], labels: Sequence[float]) -> FeedbackCounts:
        found = await self.client.feedback(ids, labels)
        moment = asyncio.get_running_loop().time()
        self.told |= {i: (moment, y) for i, y in zip(ids, labels, strict=True)}
        return found


async def replayed(edges: list[Edge], data: Dataset, options: Options) -> tuple[ReplayResult, list[Watched]]:
    names = data.edge_names[: len(edges)]
    clients = {name: Watched(client_of(edge)) for name, edge in zip(names, edges, strict=True)}
    streams = dict(zip(names, data.streams, strict=False))
    try:
        return await replay(streams, clients, options, task=data.task), list(clients.values())
    finally:
        for one in clients.values():
            await one.client.close()


def test_scores_are_those_of_the_predictions_and_everything_is_learned(pair: list[Edge], store: Dataset) -> None:
    before = [learned(edge) for edge in pair]
    options = Options(per_request=10, connections=1, batch_size=BATCH)
    found, watched = asyncio.run(replayed(pair, store, options))
    assert found.delivered
    for place, (one, client) in enumerate(zip(found.edges, watched, strict=True)):
        labels = store.streams[place].labels.numpy()
        predictions = np.array(client.predictions)  # over one connection they come in the order of events
        assert one.events == one.feedback.accepted == len(labels) == len(predictions)
        cut = range(0, len(labels) // BATCH * BATCH, BATCH)
        parts = [(labels[b : b + BATCH], predictions[b : b + BATCH]) for b in cut]
        wanted = [roc_auc_score(y, p) for y, p in parts if len(set(y)) == 2]
        assert one.score == pytest.approx(np.mean(wanted))
        assert one.pooled == pytest.approx(roc_auc_score(labels, predictions))
        assert [client.told[i][1] for _, ids in client.asked for i in ids] == labels.tolist()
        assert (one.requests, one.failures, one.latency.count) == (-(-len(labels) // 10), 0, -(-len(labels) // 10))
    known = [before[e] + len(store.streams[e]) // BATCH for e in range(2)]
    wait_for(lambda: all(learned(e) >= n for e, n in zip(pair, known, strict=True)), "batches to be learned")


def test_delayed_outcomes_come_when_they_are_due(pair: list[Edge], store: Dataset) -> None:
    data = store.window(300)
    late = Delay(0.25)  # of the data's whole time, which one unit of it is
    options = Options(per_request=5, delay=late, batch_size=BATCH)
    fast = replace(options, speed=speed_for(data.streams[:1], options, 1.5))
    found, (client,) = asyncio.run(replayed(pair[:1], data, fast))
    assert fast.speed is not None
    assert found.delivered
    assert found.total.feedback.accepted == len(data.streams[0])
    waits = [client.told[ids[0]][0] - when for when, ids in client.asked]
    # A late answer shortens the wait from then on, never the moment that it ends.
    assert max(waits) > 0.9 * 0.25 / fast.speed
    assert found.seconds >= (1.5 + 0.25 / fast.speed) * 0.99


def test_an_edge_that_is_killed_and_comes_back_has_been_told_everything(pair: list[Edge], store: Dataset) -> None:
    edge, events = pair[1], store.streams[1]
    count = len(events)
    killed, back = asyncio.Event(), asyncio.Event()

    def look(progress: Progress) -> None:
        if progress.edges["shop"].events > count / 4:
            killed.set()

    async def crash() -> None:
        await killed.wait()
        await asyncio.to_thread(edge.kill)
        await asyncio.to_thread(edge.start)
        back.set()

    async def main() -> tuple[ReplayResult, Watched]:
        options = Options(per_request=2, connections=3, delay=Delay(0.05), batch_size=BATCH, patience=120.0)
        options = replace(options, speed=speed_for([events], options, 3.0))
        async with client_of(edge) as client:
            watched = Watched(client)
            crashing = asyncio.create_task(crash())
            found = await replay({"shop": events}, {"shop": watched}, options, task=store.task, on_progress=look)
            await crashing
            return found, watched

    found, client = asyncio.run(main())
    told = found.total.feedback
    assert back.is_set()
    assert found.delivered
    assert found.total.events == count
    assert told.accepted + told.known == count
    assert (told.expired, told.unknown, told.undelivered, found.total.failures) == (0, 0, 0, 0)
    assert found.total.retries > 0
    assert len(client.told) == count
