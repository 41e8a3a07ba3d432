"""Attacks in a simulation: what hostile edges publish is forged, and AlphaEdge does not mix it in."""

import functools
from typing import Any

import polars as pl
import pytest
import torch

from alphaedge import Conditions, MethodSettings, simulate
from alphaedge.attacks.catalog import ATTACKS
from alphaedge.core.methods import uniweight
from alphaedge.errors import InvalidValue
from alphaedge.simulation.world import World

from ..fleets import seen, shop_data

QUICK: dict[str, Any] = {"batch_size": 10, "rate": 0.02, "seeds": 1}
SHORT: dict[str, Any] = QUICK | {"method": MethodSettings(aggregate_every=4)}  # six rounds or so of 250 events
HARMFUL = ["random-model", "negated-update", "scaled-update", "collusion", "false-claims"]


def _attacked(name: str) -> Conditions:
    return Conditions(adversaries=0.25, attack=name)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_runs_in_both_executors_and_they_agree(name: str) -> None:
    data = shop_data(edges=4, events=250)
    run: dict[str, Any] = SHORT | {"data": data, "methods": ["alphaedge"], "conditions": _attacked(name)}
    stacked, plain = (simulate(executor=executor, **run) for executor in ("stacked", "one-at-a-time"))
    scores = [r.summary()["methods"]["alphaedge"]["mean"] for r in (stacked, plain)]
    assert scores[0] == pytest.approx(scores[1], abs=2e-3)


def _world(conditions: Conditions) -> World:
    data = shop_data(edges=4, events=250)
    methods = {"uniweight": uniweight(aggregate_every=SHORT["method"].aggregate_every, tallies="shared")}
    run: dict[str, Any] = SHORT | {"data": data, "methods": methods, "executor": "one-at-a-time"}
    return seen(conditions=conditions, **run).world


@functools.cache
def _honest() -> World:
    return _world(Conditions())


@pytest.mark.parametrize("name", [n for n in ATTACKS if n not in ("flipped-labels", "poisoned-statistics")])
def test_hostile_edges_publish_something_else_than_their_models_and_honest_ones_do_not(name: str) -> None:
    (hostile,) = _attacked(name).draw_adversaries(4, 0)
    first = [w.published for w in (_world(_attacked(name)), _honest())]
    assert first[0].number.tolist() == first[1].number.tolist()
    published = [torch.cat([p.dense[0], *(t[0].flatten(1) for t in p.tables)], dim=1) for p in first]
    assert not torch.equal(published[0][hostile], published[1][hostile])


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_attacker_has_no_share_once_models_have_learned_something(name: str) -> None:
    data = shop_data(edges=8, clusters=1, events=12000, users=20)
    found = simulate(data=data, methods=["alphaedge"], conditions=_attacked(name), **QUICK | {"batch_size": 20})
    hostile = found.summary()["adversaries"]["0"]
    late = found.weights.filter((pl.col("aggregation") >= 2) & ~pl.col("edge").is_in(hostile))
    assert len(late) > 20
    share = late.filter(pl.col("peer").is_in(hostile))["share"].sum()
    assert share / late.select(pl.struct("edge", "aggregation").n_unique()).item() < 0.02


def test_an_attack_without_adversaries_changes_nothing() -> None:
    data = shop_data(edges=3)
    plain, named = (
        simulate(data=data, methods=["alphaedge"], conditions=c, **QUICK)
        for c in (Conditions(), Conditions(attack="random-model"))
    )
    assert plain.scores.equals(named.scores)


def test_an_unknown_attack_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match=r"attack.*sabotage.*random-model"):
        Conditions(attack="sabotage")
