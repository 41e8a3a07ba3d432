"""Scores of a replay are those of scikit-learn and of the simulator, whatever the order of answers."""

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from alphaedge.replay.result import Latency
from alphaedge.replay.scores import StreamScores
from alphaedge.scoring import auc, one_minus_smape


def made(labels: torch.Tensor, task: str = "classify", size: int = 10) -> StreamScores:
    return StreamScores(labels, torch.arange(len(labels)).double() * 2, task, size)  # type: ignore[arg-type]


def test_auc_is_scikit_learns_batch_by_batch_and_pooled() -> None:
    rng = np.random.default_rng(0)
    predictions, labels = rng.normal(size=105).astype(np.float32).round(1), rng.integers(2, size=105)
    scores = made(torch.tensor(labels).float())
    for first in range(0, 105, 7):
        scores.add(first, 7, predictions[first : first + 7], at=first / 10)
    wanted = [roc_auc_score(labels[b : b + 10], predictions[b : b + 10]) for b in range(0, 100, 10)]
    assert [p.score for p in scores.points] == pytest.approx(wanted)
    assert scores.mean() == pytest.approx(np.mean(wanted))
    assert scores.pooled() == pytest.approx(roc_auc_score(labels, predictions))
    assert [p.event for p in scores.points] == list(range(9, 100, 10))
    assert [p.time for p in scores.points] == [2 * e for e in range(9, 100, 10)]


def test_one_minus_smape_is_the_packages() -> None:
    rng = np.random.default_rng(1)
    predictions, labels = rng.gamma(2, size=(2, 40)).astype(np.float32)
    scores = made(torch.from_numpy(labels), "regress", 20)
    scores.add(0, 40, predictions, at=1.0)
    wanted = one_minus_smape(torch.from_numpy(predictions).view(2, 20), torch.from_numpy(labels).view(2, 20))
    assert [p.score for p in scores.points] == pytest.approx(wanted.tolist())
    assert scores.mean() == pytest.approx(float(wanted.mean()))


@given(st.integers(1, 60), st.integers(1, 7), st.integers(2, 9), st.randoms(use_true_random=False), st.data())
def test_the_order_of_answers_does_not_matter_and_failures_are_left_out(
    events: int, group: int, size: int, order: random.Random, data: st.DataObject
) -> None:
    rng = np.random.default_rng(events)
    predictions, labels = rng.normal(size=events).astype(np.float32), torch.tensor(rng.integers(2, size=events)).float()
    starts = list(range(0, events, group))
    failed = data.draw(st.sets(st.sampled_from(starts)))
    order.shuffle(starts)
    scores = made(labels, size=size)
    for first in starts:
        part = predictions[first : first + group]
        scores.add(first, len(part), None if first in failed else part, at=0.0)
    kept = [e for e in range(events) if e // group * group not in failed]
    whole = torch.tensor(kept[: len(kept) // size * size], dtype=torch.long).view(-1, size)
    wanted = auc(torch.from_numpy(predictions)[whole], labels[whole]).tolist() if len(whole) else []
    assert [math.nan if p.score is None else p.score for p in scores.points] == pytest.approx(wanted, nan_ok=True)
    assert scores.prediction_count == len(kept)


def test_a_batch_waits_for_the_events_before_it_until_none_will_come() -> None:
    labels = torch.tensor([0.0, 1.0] * 10)
    scores = made(labels, size=4)
    scores.add(8, 4, labels[8:12].numpy(), at=1.0)
    assert not scores.points
    scores.close(at=2.0)
    assert [(p.event, p.at, p.score) for p in scores.points] == [(11, 2.0, 1.0)]


def test_no_predictions_or_one_class_have_no_score() -> None:
    scores = made(torch.zeros(0))
    assert (scores.mean(), scores.pooled(), scores.prediction_count) == (None, None, 0)
    one_class = made(torch.zeros(10))
    one_class.add(0, 10, np.zeros(10, dtype=np.float32), at=0.0)
    assert [p.score for p in one_class.points] == [None]
    assert one_class.mean() is None


def test_percentiles_are_numpys_and_the_histogram_has_everything() -> None:
    seconds = np.random.default_rng(2).lognormal(-5, 1, size=5000)
    found = Latency.from_seconds(seconds.tolist())
    assert [found.p50, found.p95, found.p99] == pytest.approx(np.percentile(seconds * 1e3, [50, 95, 99]).tolist())
    assert found.max == pytest.approx(seconds.max() * 1e3)
    bounds, counts = zip(*found.histogram, strict=True)
    assert sum(counts) == found.count == 5000
    assert list(bounds) == sorted(bounds)
    assert sum(c for b, c in found.histogram if b <= 10) == (seconds <= 0.01).sum()
