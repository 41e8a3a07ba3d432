"""A rule of the operator's own that fails does not stop a live edge."""

import logging
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from alphaedge import Mixing, PeerMemory, View, Weights
from alphaedge.edge.config import load
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.errors import InvalidValue

from ..peers.test_driver import learning
from ..processes import EVERY, Edge


@dataclass(frozen=True)
class Infinite:
    """The plain mean, with a number that can't be kept."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 2
    memory: ClassVar[PeerMemory] = PeerMemory(numbers={"best": 0.0})

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        return Weights(torch.ones_like(weights.raw), {"best": torch.full_like(weights.raw, math.inf)})

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        mixing.weighted_mean(shares)


@dataclass(frozen=True)
class Itself:
    """Chooses the edge itself, after a good start."""

    peers: ClassVar[int | None] = 1
    every: ClassVar[int] = 1

    def first(self, edge: Any, candidates: Sequence[Any], rng: random.Random) -> list[Any]:
        return [j for j in candidates if j != edge][:1]

    def choose(self, view: View[Any], rng: random.Random) -> list[Any]:
        return [view.edge]


def pulled(loop: LearningLoop) -> PulledModel:
    none = tuple(torch.empty(0, dtype=torch.long) for _ in loop.learner.tables)
    rows = tuple(table.published[:0] for table in loop.learner.tables)
    return PulledModel(1, 10, torch.zeros_like(loop.learner.mixed.dense[0]), {}, none, rows)


def due(folder: Path, **method: Any) -> LearningLoop:
    """A learner whose round is due, with boston for a neighbour."""
    loop = learning(folder, EVERY, method={"aggregate_every": EVERY} | method)
    assert loop.due
    loop.start_round()
    loop.learner.join(["berlin", "boston"])
    return loop


def test_weights_that_are_not_finite_are_not_mixed_by_and_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = due(tmp_path, aggregation=f"{__name__}:Infinite")
    before = loop.learner.mixed.dense.clone()
    with caplog.at_level(logging.WARNING, "alphaedge.edge"):
        assert loop.finish_round({"boston": pulled(loop)}, ["berlin", "boston"], {}) == {"berlin": 1.0}
    assert "aggregation_rule_failed" in caplog.messages
    assert loop.learner.aggregations == 1
    assert torch.equal(loop.learner.mixed.dense, before), "it has gone back, and trained again on what waited"
    assert LearningLoop(load(tmp_path / "edge.toml"), tmp_path).learner.aggregations == 1, "the checkpoint is good"


def test_a_choice_that_is_not_allowed_leaves_the_neighbours_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = due(tmp_path, selection=f"{__name__}:Itself")
    with caplog.at_level(logging.WARNING, "alphaedge.edge"):
        loop.finish_round({"boston": pulled(loop)}, ["berlin", "boston"], {})
    assert "selection_rule_failed" in caplog.messages
    assert loop.learner.links.neighbours == ["boston"]


def test_weights_of_another_rule_are_not_taken_over(tmp_path: Path) -> None:
    loop = due(tmp_path, name="fedweight")
    loop.finish_round({"boston": pulled(loop)}, ["berlin", "boston"], {})
    assert loop.learner.links.own.weight > 1.0, "records"
    Edge(tmp_path, method={"aggregate_every": EVERY, "home": False})
    again = LearningLoop(load(tmp_path / "edge.toml"), tmp_path).learner
    assert (again.links.neighbours, again.links.own.weight) == (["boston"], 1.0)


def test_a_rule_for_a_method_without_peers_is_refused(tmp_path: Path) -> None:
    edge = Edge(tmp_path, method={"name": "noagg", "selection": f"{__name__}:Itself"})
    with pytest.raises(InvalidValue, match=r"method\.selection.*noagg has no peers"):
        load(edge.path)
