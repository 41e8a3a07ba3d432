"""While batches wait for the mix, the mixed model trains on them ahead of it, and goes back for the mix."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from alphaedge import Conditions, Dataset, simulate
from alphaedge.core.gradients import Gradients
from alphaedge.core.methods import Method, alphaedge, fedweight, noagg, uniweight
from alphaedge.core.round import Round
from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.simulation import rounds
from alphaedge.simulation.world import World

from .fleets import linear, measured, predictions, seen, shop, shop_model
from .test_engine import SIZE, fitted

RULE = Learned(weight_batches=3)
BATCHES, EVERY = 24, 8
SHARED: dict[str, Any] = {"model": linear, "batch_size": SIZE, "clock": "batch-index", "rate": 0.05}


def data() -> Dataset:
    return measured(3, BATCHES)


def method(*, ahead: bool = True, **changes: Any) -> Method:
    return alphaedge(**{"aggregation": RULE, "aggregate_every": EVERY, "home": None, "train_ahead": ahead} | changes)


@contextmanager
def watched() -> Iterator[list[tuple[Tensor, Tensor, int]]]:
    """The dense parts that were mixed, what was last published of the first edge, and its records then."""
    seen_by_mix: list[tuple[Tensor, Tensor, int]] = []
    real, worlds = rounds.mix, list[World]()
    real_group = rounds._mix

    def group(world: World, edges: list[int]) -> None:
        worlds[:] = [world]
        real_group(world, edges)

    def mix(method: Method, gradients: Gradients, round: Round) -> list[list[float]]:
        published = worlds[0].published
        newest = int(published.places(torch.tensor(0), published.number[0]))
        records = int(published.all_records[newest])
        seen_by_mix.append((round.models.dense[0].clone(), published.all_dense[newest].clone(), records))
        return real(method, gradients, round)

    with mock.patch.object(rounds, "mix", mix), mock.patch.object(rounds, "_mix", group):
        yield seen_by_mix


@pytest.mark.parametrize("ahead", [True, False])
def test_the_model_learns_on_while_batches_wait(ahead: bool) -> None:
    found = seen(data=data(), methods={"m": method(ahead=ahead)}, **SHARED)
    for edge in range(3):
        weights = [fitted(found.world, data(), edge, t) for t in range(BATCHES)]
        still = [torch.allclose(a, b, atol=1e-5) for a, b in pairwise(weights)]
        assert still == [not ahead and t % EVERY in (5, 6) for t in range(BATCHES - 1)]


def test_what_is_mixed_has_not_seen_the_batches_that_weights_are_learned_on() -> None:
    """At the first mix, it is the model after five batches; published is the model after eight."""
    alone = seen(data=data(), methods={"m": noagg()}, **SHARED)
    with watched() as mixes:
        seen(data=data(), methods={"m": method(precision="full")}, **SHARED)
    mixed, published, records = mixes[0]
    x = data().streams[0].inputs["x"]

    def predicted(dense: Tensor, t: int) -> Tensor:
        return x[t * SIZE : t * SIZE + SIZE] @ dense[:2] + dense[2]

    expected = predictions(alone.world, 0)
    torch.testing.assert_close(predicted(mixed, 5), expected[5], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(predicted(published, 8), expected[8], rtol=1e-4, atol=1e-4)
    assert records == 8 * SIZE


def test_after_the_mix_the_waiting_batches_are_trained_on_again_and_count_once() -> None:
    found = seen(data=data(), methods={"m": method()}, **SHARED)
    assert found.world.records.tolist() == [(BATCHES - 3) * SIZE] * 3, "those of the mix at the very end wait"
    assert found.world.models.steps.tolist() == [BATCHES - 3] * 3


def test_an_edge_that_nobody_answers_keeps_what_it_has_learned() -> None:
    lonely = seen(
        data=data(), methods={"m": uniweight(aggregate_every=EVERY)}, conditions=Conditions(drop=1.0), **SHARED
    )
    alone = seen(data=data(), methods={"m": noagg(aggregate_every=5)}, **SHARED)
    assert torch.equal(lonely.world.log.predictions, alone.world.log.predictions)
    assert lonely.world.records.tolist() == alone.world.records.tolist() == [BATCHES * SIZE] * 3


def test_learning_alone_never_pauses() -> None:
    """Whatever the aggregation period, which means nothing to an edge alone."""
    runs = [seen(data=data(), methods={"m": noagg(aggregate_every=e)}, **SHARED) for e in (2, 5, 100)]
    for run in runs[1:]:
        assert torch.equal(run.world.log.predictions, runs[0].world.log.predictions)


@pytest.mark.parametrize("make", [alphaedge, fedweight])
def test_executors_agree_on_id_rows_too(make: Any) -> None:
    store = shop()
    scores = [
        simulate(
            store=store,
            model=shop_model(store),
            methods={"m": make(aggregate_every=6)},
            batch_size=20,
            executor=executor,
        ).summary()["methods"]["m"]["mean"]
        for executor in ("stacked", "one-at-a-time")
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
