"""A rule of the operator's own that fails does not stop a live edge."""

import asyncio
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

from ..peers.test_driver import driver, learning
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


@dataclass(frozen=True)
class Raises:
    """The plain mean, or an error in one of its methods: ``mix`` fails when half of it is done."""

    where: str
    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 2
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        if self.where == "weigh":
            raise ZeroDivisionError("by a share of 0")
        return Weights(torch.ones_like(weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        mixing.weighted_mean(shares)
        mixing.models.tables[0].value.add_(1.0)
        raise ZeroDivisionError("by a share of 0")


def raises_in_weigh() -> Raises:
    return Raises("weigh")


def raises_in_mix() -> Raises:
    return Raises("mix")


@dataclass(frozen=True)
class Unlucky:
    """Finds neighbours neither at first nor later."""

    peers: ClassVar[int | None] = 1
    every: ClassVar[int] = 1

    def first(self, edge: Any, candidates: Sequence[Any], rng: random.Random) -> list[Any]:
        raise IndexError("nobody there")

    def choose(self, view: View[Any], rng: random.Random) -> list[Any]:
        raise IndexError("nobody there")


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


@pytest.mark.parametrize("where", ["weigh", "mix"])
def test_a_rule_that_raises_changes_nothing_and_the_round_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    broken = due(tmp_path / "one", aggregation=f"{__name__}:raises_in_{where}")
    refused = due(tmp_path / "other", aggregation=f"{__name__}:Infinite")
    with caplog.at_level(logging.WARNING, "alphaedge.edge"):
        for loop in (broken, refused):
            assert loop.finish_round({"boston": pulled(loop)}, ["berlin", "boston"], {}) == {"berlin": 1.0}
    (record, _) = (record for record in caplog.records if record.getMessage() == "aggregation_rule_failed")
    assert f"aggregation: Raises.{where} failed (ZeroDivisionError: by a share of 0)" in str(vars(record))
    assert "boston" in str(vars(record))
    one, other = broken.learner, refused.learner
    assert one.aggregations == 1
    assert torch.equal(one.mixed.dense, other.mixed.dense)
    for mine, theirs in zip(one.mixed.tables, other.mixed.tables, strict=True):
        assert torch.equal(mine.value, theirs.value)


async def first_neighbours(loop: LearningLoop) -> tuple[str, ...]:
    return driver(loop)._peers_of(["berlin", "boston"])[0]


def test_a_selection_rule_that_raises_leaves_the_edge_with_the_neighbours_that_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = learning(tmp_path, EVERY, method={"aggregate_every": EVERY, "selection": f"{__name__}:Unlucky"})
    with caplog.at_level(logging.WARNING, "alphaedge.edge"):
        assert asyncio.run(first_neighbours(loop)) == ()
        loop.start_round()
        loop.finish_round({}, ["berlin", "boston"], {})
    failed = [str(vars(r)) for r in caplog.records if r.getMessage() == "selection_rule_failed"]
    assert ["first" in text for text in failed] == [True, False]
    assert all("IndexError: nobody there" in text for text in failed)
    assert loop.learner.aggregations == 1


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
