"""Edges that join late and leave early: their batches, their start, and what others hear of them."""

from collections.abc import Sequence
from unittest import mock

import polars as pl
import pytest
import torch
from torch import Tensor

from alphaedge import Conditions, Home, Method, simulate
from alphaedge.core.methods import nops, uniweight
from alphaedge.core.state import ModelState
from alphaedge.simulation.publications import Publications
from alphaedge.simulation.task import make_model

from ..fleets import Seen, linear, measured, normalised, predictions, seen

SIZE = 5


def times_of(found: Seen, edge: int) -> list[float]:
    return found.results.scores.filter(pl.col("edge") == edge)["time"].to_list()


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_an_edge_has_no_batches_before_it_joins_and_none_after_it_leaves(clock: str) -> None:
    found = seen(
        methods=["alphaedge"],
        data=measured(4, 40),
        model=linear,
        batch_size=SIZE,
        clock=clock,
        executor="one-at-a-time",
        conditions=Conditions(joins={1: 0.5, 3: 0.25}, leaves={2: 0.5, 3: 0.75}),
    )
    bounds = {0: (0.0, 1.01), 1: (0.5, 1.01), 2: (0.0, 0.5), 3: (0.25, 0.75)}
    assert len(times_of(found, 0)) == 40
    for edge, (low, high) in bounds.items():
        times = times_of(found, edge)
        assert low <= min(times)
        assert max(times) < high
        assert len(times) == pytest.approx(40 * (min(high, 1) - low), abs=1)
    # Nobody pulls from those who are not there.
    mixes = found.results.weights
    for edge, (low, high) in bounds.items():
        shares = mixes.filter((pl.col("peer") == edge) & (pl.col("edge") != edge) & (pl.col("share") > 0))
        assert shares["time"].is_between(low, high).all()


def test_an_edge_that_is_there_for_no_batch_does_no_harm() -> None:
    found = simulate(
        methods=["alphaedge", "noagg"],
        data=measured(3, [20, 20, 10], times=lambda e, n: torch.linspace(0, [1.0, 1.0, 0.5][e], n).double()),
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
        conditions=Conditions(joins={2: 0.9}),
    )
    assert found.summary()["methods"]["noagg"]["per_edge"][2] is None
    assert found.summary()["methods"]["noagg"]["mean"] is not None


@pytest.mark.parametrize("method", [uniweight(aggregate_every=5), nops(aggregate_every=5, home=Home())])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_an_edge_that_joins_late_starts_from_its_peers_newest_models_or_from_scratch(
    bootstrap: bool, method: Method
) -> None:
    """Its home model too. At moment 0.5, in lock-step, the peers have published at batches 4, 9, 14 and 19 of 41."""
    data = measured(3, 41)
    given: list[tuple[list[int], int]] = []
    real = Publications.give

    def give(self: Publications, places: Sequence[int], rows: Sequence[Tensor], state: ModelState, edge: int) -> None:
        newest = [int(self.number[place % self.n]) for place in places]
        given.append(([n for n, place in zip(newest, places, strict=True) if place // self.n == n % self.depth], edge))
        real(self, places, rows, state, edge)

    with mock.patch.object(Publications, "give", give):
        found = seen(
            methods={"m": method},
            data=data,
            model=linear,
            rate=0.05,
            batch_size=SIZE,
            clock="batch-index",
            executor="one-at-a-time",
            conditions=Conditions(joins={2: 0.5}, bootstrap=bootstrap),
        )
    with torch.no_grad():
        x = data.streams[2].inputs["x"][20 * SIZE : 21 * SIZE]
        initial = make_model(linear, 0).module(x).flatten()
    first = predictions(found.world, 2)[20]
    assert torch.allclose(first, initial, atol=1e-6) != bootstrap
    assert given == ([([4, 4], 2)] * (2 if method.home else 1) if bootstrap else [])


def test_an_edge_that_joins_late_takes_over_its_peers_running_statistics() -> None:
    means: list[Tensor] = []
    real = Publications.give

    def give(self: Publications, places: Sequence[int], rows: Sequence[Tensor], state: ModelState, edge: int) -> None:
        real(self, places, rows, state, edge)
        means.append(state.buffers["layers.1.running_mean"][edge].clone())

    with mock.patch.object(Publications, "give", give):
        seen(
            methods={"m": uniweight(aggregate_every=5)},
            data=measured(3, 41),
            model=normalised,
            batch_size=SIZE,
            executor="one-at-a-time",
            conditions=Conditions(joins={2: 0.5}),
        )
    assert len(means) == 1
    assert bool((means[0] != 0).all())


def test_an_edge_that_is_there_from_the_start_does_not_bootstrap() -> None:
    with mock.patch.object(Publications, "give", side_effect=AssertionError):
        simulate(
            methods=["uniweight"],
            data=measured(3, 20),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
            conditions=Conditions(joins={1: 0.0}),
        )
