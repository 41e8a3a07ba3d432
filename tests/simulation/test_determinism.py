"""The same settings give the same results: again, in company, and over several processes."""

from typing import Any
from unittest import mock

import polars as pl
import pytest
import torch
from torch import Tensor, nn

from alphaedge import Conditions, MethodSettings, Model, Results, simulate

from .fleets import linear, measured, predictions, seen, shop, shop_model

STORE = shop(edges=4, events=100)
SETTINGS: dict[str, Any] = {
    "store": STORE,
    "model": shop_model(STORE),
    "batch_size": 5,
    "method": MethodSettings(peers=2, aggregate_every=10, weight_steps=3),
    "conditions": Conditions(delay=1, drop=0.2, adversaries=0.25, label_noise=0.1, joins={1: 0.2}),
}


def without_speed(results: Results) -> dict[str, Any]:
    summary = results.summary()
    for row in summary["methods"].values():
        del row["edge_batches_per_second"]
    return summary


def test_the_same_settings_twice_give_identical_results() -> None:
    one, two = (simulate(methods=["alphaedge"], **SETTINGS) for _ in range(2))
    assert one.scores.equals(two.scores)
    assert one.weights.equals(two.weights)
    assert one.pulls.equals(two.pulls)
    assert without_speed(one) == without_speed(two)


def test_the_order_of_methods_does_not_matter() -> None:
    one, two = (
        simulate(methods=m, executor="one-at-a-time", **SETTINGS)
        for m in (["fedweight", "noagg"], ["noagg", "fedweight"])
    )
    for name in ("fedweight", "noagg"):
        assert one.scores.filter(pl.col("method") == name).equals(two.scores.filter(pl.col("method") == name))


def test_torchs_own_generator_neither_matters_nor_moves() -> None:
    torch.manual_seed(1)
    settings: dict[str, Any] = {"methods": ["alphaedge"], "data": measured(2, 21), "model": thinned, "batch_size": 5}
    settings["executor"] = "one-at-a-time"
    one = simulate(**settings)
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    two = simulate(**settings)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert one.scores.equals(two.scores)


class Thinned(nn.Module):
    """A module with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


def thinned() -> Model:
    return Model(Thinned(), fields=["x"], loss="mse")


@pytest.mark.parametrize("executor", ["stacked", "one-at-a-time"])
def test_a_module_with_dropout_gives_the_same_results_twice(executor: str) -> None:
    settings: dict[str, Any] = {"data": measured(2, 12), "model": thinned, "batch_size": 5, "executor": executor}
    one, two = (simulate(methods=["noagg"], **settings) for _ in range(2))
    assert one.scores.equals(two.scores)


@pytest.mark.parametrize("clock", ["event-time", pytest.param("batch-index", marks=pytest.mark.long)])
def test_a_seeds_run_is_the_same_alone_or_stacked_with_others(clock: str) -> None:
    alone, stacked = (seen(methods=["alphaedge"], seeds=s, clock=clock, **SETTINGS) for s in (1, 3))
    for one, three in zip(alone.worlds, stacked.worlds, strict=True):
        assert len(three.models) == 3 * len(one.models)
        for edge in range(4):
            mine, theirs = predictions(one, edge), predictions(three, edge)
            assert torch.allclose(mine, theirs, atol=1e-5, equal_nan=True)
            assert one.links[edge].neighbours == three.links[edge].neighbours
    first = stacked.results.scores.filter(pl.col("seed") == 0)
    assert first.drop("score").equals(alone.results.scores.drop("score"))


def test_seeds_too_many_for_one_stack_are_the_same_runs() -> None:
    shared: dict[str, Any] = {"data": measured(3, 24), "model": linear, "batch_size": 5, "seeds": 3}
    stacked = seen(methods=["uniweight"], **shared)
    with mock.patch("alphaedge.simulation.simulate.STACKED_EDGES", 6):
        cut = seen(methods=["uniweight"], **shared)
    assert [len(world.seeds) for world in stacked.worlds] == [3]
    assert [len(world.seeds) for world in cut.worlds] == [2, 1]
    together = torch.cat([world.log.predictions for world in cut.worlds])
    assert torch.allclose(together, stacked.world.log.predictions, atol=1e-5)
    assert cut.results.scores.drop("score").equals(stacked.results.scores.drop("score"))


def test_every_seed_of_a_stack_is_another_run() -> None:
    found = simulate(methods=["noagg"], seeds=3, executor="one-at-a-time", **SETTINGS)
    assert len(set(found.summary()["methods"]["noagg"]["per_seed"])) == 3
    assert len({tuple(v) for v in found.summary()["adversaries"].values()}) > 1


def test_on_data_of_ones_own_seeds_differ_in_the_start_of_the_model_alone() -> None:
    data = measured(2, 6)
    worlds = seen(methods=["noagg"], seeds=2, data=data, model=linear, batch_size=5).world
    assert torch.equal(worlds.batches.scored[:12], worlds.batches.scored[12:])
    assert not torch.equal(predictions(worlds, 0)[0], predictions(worlds, 2)[0])


@pytest.mark.long
def test_two_processes_give_what_one_does() -> None:
    """Stacks are cut otherwise, so numbers agree to rounding; AUC is exact unless rounding swaps two predictions."""
    one, two = (simulate(methods=["alphaedge", "fedweight"], seeds=2, jobs=jobs, **SETTINGS) for jobs in (1, 2))
    assert one.scores.drop("score").equals(two.scores.drop("score"))
    apart = (one.scores["score"] - two.scores["score"]).abs()
    assert apart.is_null().sum() == one.scores["score"].is_null().sum()
    assert (apart.drop_nulls() > 1e-5).sum() <= 1
    assert one.weights.drop("share").equals(two.weights.drop("share"))
    assert (one.weights["share"] - two.weights["share"]).abs().max() < 1e-4
    assert one.pulls.equals(two.pulls)
    assert one.summary()["adversaries"] == two.summary()["adversaries"]
