"""An edge whose loss is no longer finite stops, and says so; the others continue."""

import math
from typing import Any
from unittest import mock

import polars as pl
import pytest
import torch
from torch import Tensor, nn

from alphaedge import Dataset, Learned, Model, Results, simulate
from alphaedge.core.methods import alphaedge, nops
from alphaedge.core.state import ModelState
from alphaedge.simulation import engine
from alphaedge.simulation.training_span import TrainingSpan

from ..fleets import linear, measured, predictions, seen, with_labels

SIZE = 5
BATCHES, BROKEN_FROM = 40, 22


def poisoned(task: str = "regress") -> Dataset:
    """Edge 1 sees features of 1e30 from some batch on."""
    data = measured(3, BATCHES, SIZE, task=task)
    data.streams[1].inputs["x"][BROKEN_FROM * SIZE :] = 1e30
    return data


class Squared(nn.Module):
    """Logits that overflow where features do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out * out - 1


def squared() -> Model:
    return Model(Squared(), fields=["x"], loss="bce")


def run(data: Dataset, task: str = "regress", **settings: Any) -> Results:
    shared: dict[str, Any] = {"batch_size": SIZE, "model": linear if task == "regress" else squared, "rate": 0.05}
    return simulate(data=data, **(shared | settings))


METHODS = {
    "nops": nops(aggregation=Learned(weight_batches=1, steps=2), aggregate_every=5, home=None),
    "with a home model": alphaedge(aggregation=Learned(weight_batches=1, steps=2), aggregate_every=5),
}


@pytest.mark.parametrize(("executor", "clock"), [("stacked", "batch-index"), ("one-at-a-time", "event-time")])
def test_a_broken_edge_stops_with_a_message_and_the_others_go_on(executor: str, clock: str) -> None:
    found = run(poisoned(), methods=METHODS, executor=executor, clock=clock)
    messages = found.summary()["messages"]
    for name in METHODS:
        (message,) = [m for m in messages if m.startswith(f"{name}: seed 0, edge 1: ")]
        assert "loss" in message
        mine = found.scores.filter(pl.col("method") == name)
        for edge in (0, 2):
            scores = mine.filter(pl.col("edge") == edge)["score"]
            assert len(scores) == BATCHES
            assert scores.is_finite().all()
        broken = mine.filter(pl.col("edge") == 1)
        assert broken["batch"].max() < BATCHES - 1
        assert broken.filter(pl.col("batch") < BROKEN_FROM)["score"].is_finite().all()
        assert broken.filter(pl.col("batch") > BROKEN_FROM)["score"].is_null().all()
        row = found.summary()["methods"][name]
        assert all(score is not None and 0 <= score <= 1 for score in row["per_edge"])
        assert math.isfinite(row["mean"])


def test_an_edge_that_has_stopped_is_not_pulled_from() -> None:
    found = run(poisoned(), methods={"nops": METHODS["nops"]}, clock="batch-index")
    # It breaks in the span after the aggregation at batch 19.
    shares = found.weights.filter((pl.col("peer") == 1) & (pl.col("edge") != 1) & (pl.col("share") > 0))
    assert shares["time"].max() <= 24 / (BATCHES - 1)


def test_an_edge_that_is_broken_alone_does_not_hurt_those_that_learn_alone() -> None:
    bad, good = (run(data, methods=["noagg"]) for data in (poisoned(), measured(3, BATCHES, SIZE)))
    for edge in (0, 2):
        one, two = (r.scores.filter(pl.col("edge") == edge)["score"] for r in (bad, good))
        assert one.to_list() == pytest.approx(two.to_list(), abs=1e-6)


def test_a_classifier_that_breaks_has_no_score_from_then_on() -> None:
    found = run(poisoned("classify"), "classify", methods=["noagg"])
    assert [m for m in found.summary()["messages"] if "edge 1" in m]
    scores = found.scores.filter(pl.col("edge") == 1)
    assert scores["score"].drop_nulls().is_between(0, 1).all()
    assert scores.filter(pl.col("batch") > BROKEN_FROM)["score"].is_null().all()
    row = found.summary()["methods"]["noagg"]
    assert 0 <= row["mean"] <= 1
    assert row["pooled"] is None or 0 <= row["pooled"] <= 1


def test_one_huge_label_breaks_an_edge_too() -> None:
    data = measured(3, BATCHES, SIZE)
    labels = data.streams[2].labels.clone()
    labels[BROKEN_FROM * SIZE] = 1e25
    found = run(with_labels(data, 2, labels), methods=["noagg"])
    assert [m for m in found.summary()["messages"] if "edge 2" in m]
    assert not [m for m in found.summary()["messages"] if "edge 0" in m or "edge 1" in m]


def test_every_broken_edge_of_every_seed_is_named() -> None:
    found = run(poisoned(), methods=["noagg"], seeds=2)
    named = [before for m in found.summary()["messages"] for before, at, _ in [m.partition(": the loss")] if at]
    assert named == ["noagg: seed 0, edge 1", "noagg: seed 1, edge 1"]


def test_a_home_model_that_breaks_does_not_silence_its_edge_unnoticed() -> None:
    """Only the never-mixed model of edge 0 has outputs that are no numbers."""
    broken = 0
    real = engine.run_span

    def home_model_breaks(state: ModelState, span: TrainingSpan, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal broken
        outputs = real(state, span, *args, **kwargs).clone()
        home = (span.edges == 0) & (span.models != span.edges)
        which = home.unsqueeze(1) & (span.predicted >= 10)
        outputs[which] = torch.nan
        broken += int(which.sum())
        return outputs

    with mock.patch.object(engine, "run_span", home_model_breaks):
        methods = {"m": METHODS["with a home model"]}
        found = seen(data=measured(2, 20, SIZE), methods=methods, model=linear, batch_size=SIZE)
    assert broken
    sound = bool(torch.isfinite(predictions(found.world, 0)).all())
    assert sound or [m for m in found.results.summary()["messages"] if "edge 0" in m]
