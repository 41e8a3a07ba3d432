"""The two executors agree: stacking edges is a way of computing, not another method."""

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

from alphaedge import AlphaEdge, Conditions, Greedy, Learned, MethodSettings, NoPS

from .fleets import Seen, linear, measured, normalised, seen, shop, shop_data, shop_model, shortened

METHODS = ["alphaedge", "nops", "fedweight", "alphaedge-paper"]
ROUGH = Conditions(delay=2, staleness=1, drop=0.3, drop_stretch=2.0, adversaries=0.34)
CHURN = Conditions(delay=1, joins={2: 0.2}, leaves={0: 0.8}, label_noise=0.1, down_edges_fetch=False, drop=0.2)
# Selection at every aggregation, so that a neighbour chosen differently would be noticed.
FEW = MethodSettings(peers=1, aggregate_every=20, weight_steps=3, gather=2)
SHOP = shortened(shop_data(events=1450), 5 * 214)


def both(**settings: Any) -> tuple[Seen, Seen]:
    shared = {"methods": METHODS, "method": FEW, "batch_size": 5} | settings
    return seen(executor="stacked", **shared), seen(executor="one-at-a-time", **shared)


def assert_they_agree(stacked: Seen, loop: Seen, steps: int = 200) -> None:
    for name, one, two in zip(stacked.results.methods, stacked.worlds, loop.worlds, strict=True):
        assert int(one.fleet.steps.min()) >= steps, name
        assert torch.equal(one.fleet.steps, two.fleet.steps), name
        assert torch.equal(one.record.done, two.record.done), name
        close = torch.isclose(one.record.predictions, two.record.predictions, atol=1e-4, rtol=0, equal_nan=True)
        assert bool(close.all()), name
        assert [link.neighbours for link in one.links] == [link.neighbours for link in two.links], name
        assert torch.equal(one.record.bytes, two.record.bytes), name
    a, b = (r.results.summary()["methods"] for r in (stacked, loop))
    for name in stacked.results.methods:
        assert a[name]["per_edge"] == pytest.approx(b[name]["per_edge"], abs=1e-4), name


# One method each here, a matter of time; all four with all of it in the long tests below.
def test_they_agree_in_event_time_with_lazy_rows() -> None:
    assert_they_agree(*both(data=SHOP, model=shop_model(shop()), methods=["alphaedge"]))


def test_they_agree_in_lock_step_with_dense_rows_and_every_misfortune() -> None:
    rough: dict[str, Any] = {"rows": "dense", "clock": "batch-index", "conditions": ROUGH}
    paper = replace(AlphaEdge.paper(), selection=Greedy(peers=1))
    assert_they_agree(*both(data=SHOP, model=shop_model(shop()), methods={"alphaedge-paper": paper}, **rough))


@pytest.mark.long
def test_they_agree_on_an_mlp_that_regresses_under_misfortune() -> None:
    methods = {"nops": NoPS(home=None, aggregation=Learned(steps=2, batches=2))}
    assert_they_agree(*both(data=measured(2, 214), conditions=ROUGH, methods=methods))


@pytest.mark.long  # quick ones against a plain loop, one for each executor, are in test_alone
def test_they_agree_on_a_users_module_with_running_statistics() -> None:
    methods = {"nops": NoPS(home=None, statistics="mixed", aggregation=Learned(steps=2, batches=2))}
    assert_they_agree(*both(data=measured(2, 214), model=normalised, clock="batch-index", methods=methods))


def test_blocks_of_edges_are_a_way_of_computing_too() -> None:
    methods = {"alphaedge": AlphaEdge(selection=Greedy(peers=2), aggregate_every=5, aggregation=Learned(steps=2))}
    shared: dict[str, Any] = {"data": measured(5, 21), "model": linear, "batch_size": 5, "methods": methods}
    whole = seen(**shared)
    with mock.patch("alphaedge.simulation.task.BLOCK", 2):
        blocks = seen(**shared)
    assert_they_agree(whole, blocks, steps=15)


@pytest.mark.long
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_all_methods_agree_on_other_modules_too(clock: str) -> None:
    assert_they_agree(*both(data=measured(3, 214), conditions=ROUGH, clock=clock))
    assert_they_agree(*both(data=measured(3, 214), model=normalised, clock=clock))


@pytest.mark.long
@pytest.mark.parametrize("conditions", [Conditions(), ROUGH, CHURN], ids=["calm", "rough", "churn"])
@pytest.mark.parametrize("rows", ["lazy", "dense"])
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_they_agree_on_deepfm_whatever_happens(clock: str, rows: str, conditions: Conditions) -> None:
    # An edge that joins late or leaves early takes fewer steps.
    steps = 100 if conditions is CHURN else 200
    assert_they_agree(*both(data=SHOP, rows=rows, clock=clock, conditions=conditions), steps=steps)


@pytest.mark.long
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_they_agree_on_gathered_batches_several_local_steps_and_different_starts(clock: str) -> None:
    gather = MethodSettings(peers=1, aggregate_every=6, gather=3, home=True)
    assert_they_agree(
        *both(
            store=shop(events=1550, edges=4),
            model=shop_model(shop(edges=4)),
            clock=clock,
            method=gather,
            local_steps=2,
            initial="different",
            conditions=ROUGH,
        )
    )
