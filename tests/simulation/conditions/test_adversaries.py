"""Hostile edges learn from flipped labels, are scored on the true ones, and do not count in the means."""

from typing import Any

import polars as pl
import pytest
import torch

from alphaedge import Conditions, simulate

from ..fleets import linear, linear_bce, measured, predictions, seen, with_labels

SIZE = 5
QUICK: dict[str, Any] = {"batch_size": SIZE, "rate": 0.05, "executor": "one-at-a-time"}
QUARTER = Conditions(adversaries=0.25)


def test_an_adversary_learns_as_an_edge_with_flipped_labels_would_and_is_scored_on_the_true_ones() -> None:
    data = measured(4, 30, task="classify")
    (hostile,) = QUARTER.draw_adversaries(4, 0)
    flipped = with_labels(data, hostile, 1 - data.streams[hostile].labels)
    shared = QUICK | {"methods": ["noagg", "fedweight"], "model": linear_bce}
    attacked = seen(data=data, conditions=QUARTER, **shared)
    misled = seen(data=flipped, **shared)
    for one, two in zip(attacked.worlds, misled.worlds, strict=True):
        assert torch.equal(one.log.predictions, two.log.predictions)
    one, two = (r.results.scores.filter(pl.col("edge") == hostile)["score"] for r in (attacked, misled))
    assert one.to_list() == pytest.approx((1 - two).to_list())
    honest = pl.col("edge") != hostile
    assert attacked.results.scores.filter(honest).equals(misled.results.scores.filter(honest))


def test_an_adversary_that_regresses_learns_mirrored_labels() -> None:
    data = measured(4, 30)
    (hostile,) = QUARTER.draw_adversaries(4, 0)
    low, high = data.label_range()
    mirrored = with_labels(data, hostile, low + high - data.streams[hostile].labels)
    shared = QUICK | {"methods": ["noagg"], "model": linear}
    attacked, misled = seen(data=data, conditions=QUARTER, **shared), seen(data=mirrored, **shared)
    assert torch.allclose(predictions(attacked.world, hostile), predictions(misled.world, hostile), atol=1e-5)


def test_means_are_over_the_honest_edges() -> None:
    data = measured(4, 30, task="classify")
    found = simulate(methods=["noagg"], data=data, model=linear_bce, conditions=QUARTER, seeds=3, **QUICK)
    row, hostile = found.summary()["methods"]["noagg"], found.summary()["adversaries"]
    assert hostile == {str(s): QUARTER.draw_adversaries(4, s) for s in range(3)}
    assert len({tuple(h) for h in hostile.values()}) > 1
    for seed in range(3):
        scores = found.scores.filter((pl.col("seed") == seed) & ~pl.col("edge").is_in(hostile[str(seed)]))
        by_edge = scores.group_by("edge").agg(pl.col("score").mean())["score"]
        assert len(by_edge) == 3
        assert row["per_seed"][seed] == pytest.approx(by_edge.mean())
    # They learned the opposite, so with them the mean would be lower.
    assert found.scores["score"].mean() < row["mean"] - 0.1


def test_every_method_meets_the_same_adversaries() -> None:
    data = measured(4, 12, task="classify")
    found = seen(methods=["noagg", "uniweight"], data=data, model=linear_bce, conditions=QUARTER, **QUICK)
    alone, mixed = (world.batches.get(torch.arange(4), torch.zeros(4, dtype=torch.long)) for world in found.worlds)
    assert torch.equal(alone.labels, mixed.labels)


def test_a_noisy_edge_is_scored_on_its_noise_and_counts() -> None:
    data = measured(3, 60, task="classify")
    noisy = Conditions(label_noise=0.5, noisy_edges=(1,))
    found = simulate(methods=["noagg"], data=data, model=linear_bce, conditions=noisy, **QUICK)
    row = found.summary()["methods"]["noagg"]
    assert row["per_edge"][1] == pytest.approx(0.5, abs=0.12)  # nobody can predict a coin
    assert min(row["per_edge"][0], row["per_edge"][2]) > 0.8
    assert row["mean"] == pytest.approx(sum(row["per_edge"]) / 3)
    assert found.summary()["adversaries"] == {"0": []}


def test_if_all_are_hostile_there_is_no_mean() -> None:
    found = simulate(
        methods=["noagg"], data=measured(2, 6), model=linear, conditions=Conditions(adversaries=1.0), **QUICK
    )
    row = found.summary()["methods"]["noagg"]
    assert row["mean"] is None
    assert row["per_seed"] == [None]
    assert all(score is not None for score in row["per_edge"])
