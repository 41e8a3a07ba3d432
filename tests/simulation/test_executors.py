"""The two executors agree: stacking edges is a way of computing, not another method."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch

from alphaedge import Conditions, Field, Greedy, Learned, MethodSettings, Model
from alphaedge.core.methods import RIVALS, alphaedge, alphaedge_paper, nops
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp

from .fleets import Seen, exact, linear, measured, normalised, seen, shop, shop_data, shop_model, shortened

METHODS = ["alphaedge", "nops", "fedweight", "alphaedge-paper"]
ROUGH = Conditions(delay=2, staleness=1, drop=0.3, drop_stretch=2.0, adversaries=0.34)
CHURN = Conditions(delay=1, joins={2: 0.2}, leaves={0: 0.8}, label_noise=0.1, down_edges_pull=False, drop=0.2)
# Selection at every aggregation, so that a neighbour chosen differently would be noticed.
FEW = MethodSettings(peers=1, aggregate_every=20, weight_steps=3, weight_batches=2)
SHOP = shortened(shop_data(events=1450), 5 * 214)


def both(**settings: Any) -> tuple[Seen, Seen]:
    shared = {"methods": METHODS, "method": FEW, "batch_size": 5} | settings
    return seen(executor="stacked", **shared), seen(executor="one-at-a-time", **shared)


def assert_they_agree(stacked: Seen, loop: Seen, steps: int = 200, atol: float = 1e-4) -> None:
    for name, one, two in zip(stacked.results.methods, stacked.worlds, loop.worlds, strict=True):
        assert int(one.models.steps.min()) >= steps, name
        assert torch.equal(one.models.steps, two.models.steps), name
        assert torch.equal(one.log.done, two.log.done), name
        close = torch.isclose(one.log.predictions, two.log.predictions, atol=atol, rtol=0, equal_nan=True)
        assert bool(close.all()), name
        assert [link.neighbours for link in one.links] == [link.neighbours for link in two.links], name
        assert torch.equal(one.log.bytes, two.log.bytes), name
    a, b = (r.results.summary()["methods"] for r in (stacked, loop))
    for name in stacked.results.methods:
        assert a[name]["per_edge"] == pytest.approx(b[name]["per_edge"], abs=atol), name


# One method each here, a matter of time; all four, with everything, in the long tests below.
def test_they_agree_in_event_time_with_lazy_rows() -> None:
    assert_they_agree(*both(data=SHOP, model=shop_model(shop()), methods=["alphaedge"]))


def test_they_agree_in_lock_step_with_dense_rows_and_every_misfortune() -> None:
    rough: dict[str, Any] = {"id_rows": "dense", "clock": "batch-index", "conditions": ROUGH}
    paper = replace(alphaedge_paper(), selection=Greedy(peers=1))
    assert_they_agree(*both(data=SHOP, model=shop_model(shop()), methods={"alphaedge-paper": paper}, **rough))


def test_they_agree_on_the_rivals_of_the_literature() -> None:
    methods = {name: MethodSettings(peers=2, aggregate_every=10).apply(name) for name in RIVALS}
    shared: dict[str, Any] = {"data": measured(5, 42), "model": linear, "batch_size": 5, "methods": methods}
    found = (seen(executor=executor, **shared) for executor in ("stacked", "one-at-a-time"))
    assert_they_agree(*found, steps=1)


def test_blocks_of_edges_are_a_way_of_computing_too() -> None:
    methods = {"alphaedge": alphaedge(selection=Greedy(peers=2), aggregate_every=5, aggregation=Learned(steps=2))}
    shared: dict[str, Any] = {"data": measured(5, 21), "model": linear, "batch_size": 5, "methods": methods}
    whole = seen(**shared)
    with mock.patch("alphaedge.simulation.task.BLOCK", 2):
        blocks = seen(**shared)
    assert_they_agree(whole, blocks, steps=15)


# In single precision two correct executors may part: a gradient that is rounding error alone (a unit that is nearly
# dead, a bias before a norm) becomes a whole step of Adam. In double precision they never come far enough for that.
EXACT: dict[str, Any] = {"atol": 1e-8}


@pytest.mark.long
@pytest.mark.parametrize("model", [normalised, partial(mlp, (Field("x", "number", 2),))], ids=["statistics", "mlp"])
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_all_methods_agree_on_modules_without_ids(clock: str, model: Callable[[], Model]) -> None:
    shared: dict[str, Any] = {"data": measured(3, 214), "model": partial(exact, model), "clock": clock}
    assert_they_agree(*both(**shared), **EXACT)
    assert_they_agree(*both(conditions=ROUGH, **shared), **EXACT)


@pytest.mark.long
def test_they_agree_on_mixed_running_statistics() -> None:
    methods = {"nops": nops(home=None, statistics="mixed", aggregation=Learned(steps=2, weight_batches=2))}
    model = partial(exact, normalised)
    assert_they_agree(*both(data=measured(2, 214), model=model, clock="batch-index", methods=methods), **EXACT)


@pytest.mark.long
@pytest.mark.parametrize("conditions", [Conditions(), ROUGH, CHURN], ids=["calm", "rough", "churn"])
@pytest.mark.parametrize("id_rows", ["adagrad", "lazy", "dense"])
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_all_methods_agree_on_deepfm_whatever_happens(clock: str, id_rows: str, conditions: Conditions) -> None:
    # An edge that joins late or leaves early takes fewer steps.
    steps = 100 if conditions is CHURN else 200
    model = partial(exact, partial(deepfm, SHOP.fields))
    found = both(data=SHOP, model=model, id_rows=id_rows, clock=clock, conditions=conditions)
    assert_they_agree(*found, steps=steps, **EXACT)


@pytest.mark.long
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_they_agree_on_weight_batches_several_local_steps_and_different_starts(clock: str) -> None:
    found = both(
        store=shop(events=1550, edges=4),
        model=partial(exact, shop_model(shop(edges=4))),
        clock=clock,
        method=MethodSettings(peers=1, aggregate_every=6, weight_batches=3, home=True),
        local_steps=2,
        initial="different",
        conditions=ROUGH,
    )
    assert_they_agree(*found, **EXACT)
