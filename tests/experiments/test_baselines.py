"""Baselines predict before they learn, and use only what is known at the time."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from alphaedge import Dataset, Field, Stream
from alphaedge.experiments.baselines import batch_scores, noisy_labels, pool_streams, score_baseline
from alphaedge.simulation.baselines import PRIOR_EVENTS

SIZE = 4


def measured(edges: int = 3, events: int = 22) -> Dataset:
    generator = torch.Generator().manual_seed(1)
    streams = []
    for _ in range(edges):
        x = torch.rand(events, 2, generator=generator) + 1
        times = torch.rand(events, generator=generator, dtype=torch.float64).sort().values
        streams.append(Stream({"x": x}, torch.rand(events, generator=generator) + 1, times))
    return Dataset("measured", "regress", (Field("x", "number", 2),), tuple(streams))


def clicked(events: int = 40) -> Dataset:
    generator = torch.Generator().manual_seed(2)
    item = torch.randint(0, 3, (events,), generator=generator)
    user = torch.randint(0, 9, (events,), generator=generator)
    labels = (torch.rand(events, generator=generator) < 0.5).float()
    stream = Stream({"user": user, "item": item}, labels, torch.arange(events, dtype=torch.float64))
    return Dataset("clicked", "classify", (Field("user", "id", 9), Field("item", "id", 3)), (stream,))


def test_persistence_is_the_first_number() -> None:
    data = measured()
    for edge, stream in enumerate(data.streams):
        last, labels = stream.inputs["x"][:20, 0].numpy(), stream.labels[:20].numpy()
        expected = 1 - (np.abs(last - labels) / (last + labels)).reshape(5, SIZE).mean(1)
        np.testing.assert_allclose(batch_scores("persistence", data, edge, SIZE, 0), expected, rtol=1e-5)


def test_the_prior_of_a_number_is_the_mean_of_the_batches_before() -> None:
    data = measured()
    scores = batch_scores("prior", data, 1, SIZE, 0)
    labels = data.streams[1].labels[:20].numpy()
    for batch in range(5):
        usual = labels[: batch * SIZE].mean() if batch else 0.0
        now = labels[batch * SIZE : (batch + 1) * SIZE]
        assert scores[batch] == pytest.approx(1 - np.mean(np.abs(usual - now) / (usual + now)), rel=1e-5)


def test_the_prior_of_a_click_is_the_rate_of_the_item_in_the_batches_before() -> None:
    data = clicked()
    stream = data.streams[0]
    item, labels = stream.inputs["item"].numpy(), stream.labels.numpy()
    scores = batch_scores("prior", data, 0, 10, 0)
    for batch in range(1, 4):
        seen, now = slice(0, batch * 10), slice(batch * 10, (batch + 1) * 10)
        usual = labels[seen].mean()
        rates = [
            (labels[seen][item[seen] == i].sum() + PRIOR_EVENTS * usual) / ((item[seen] == i).sum() + PRIOR_EVENTS)
            for i in item[now]
        ]
        assert scores[batch] == pytest.approx(roc_auc_score(labels[now], rates), abs=1e-6)


@pytest.mark.parametrize("name", ["prior", "persistence"])
def test_later_events_change_no_earlier_score(name: str) -> None:
    data = measured()
    first = data.streams[0]
    labels, x = first.labels.clone(), first.inputs["x"].clone()
    labels[12:], x[12:] = 9.0, 9.0
    changed = dataclasses.replace(data, streams=(Stream({"x": x}, labels, first.times), *data.streams[1:]))
    before, after = (batch_scores(name, d, 0, SIZE, 0) for d in (data, changed))
    assert before[:3] == after[:3]
    assert before[3:] != after[3:]


def test_a_baseline_is_averaged_over_batches_then_edges() -> None:
    data = measured()
    result = score_baseline("persistence", data, SIZE, 2)
    edges = [np.mean(batch_scores("persistence", data, edge, SIZE, 0)) for edge in range(3)]  # type: ignore[arg-type]
    assert result.per_edge == [pytest.approx(edges)] * 2
    assert result.per_seed == [pytest.approx(np.mean(edges))] * 2, "without noise all runs are the same"
    assert result.names == ["0", "1", "2"]


def test_pooled_batches_stay_whole_and_in_order_of_time() -> None:
    data = measured()
    whole, owner = pool_streams(data, SIZE, 0)
    assert len(whole.streams) == 1
    assert sorted(owner) == [0] * 5 + [1] * 5 + [2] * 5
    taken = [0, 0, 0]
    for batch, edge in enumerate(owner):
        mine = data.streams[edge]
        part, place = slice(batch * SIZE, (batch + 1) * SIZE), slice(taken[edge] * SIZE, (taken[edge] + 1) * SIZE)
        assert torch.equal(whole.streams[0].inputs["x"][part], mine.inputs["x"][place])
        assert torch.equal(whole.streams[0].labels[part], mine.labels[place])
        taken[edge] += 1


def test_the_noise_of_the_data_set_is_in_every_baseline() -> None:
    data = dataclasses.replace(clicked(400), noise={0: 0.25})
    flipped = noisy_labels(data, 0, 0) != data.streams[0].labels
    assert 0.15 < float(flipped.float().mean()) < 0.35
    one, other = (pool_streams(data, SIZE, seed)[0].streams[0].labels for seed in (0, 1))
    assert torch.equal(one, noisy_labels(data, 0, 0))
    assert not torch.equal(one, other), "each run draws its own"
    assert len(set(score_baseline("prior", data, SIZE, 2).per_seed)) == 2
