"""Simulated edges with privacy on publish their released models and nothing else."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from alphaedge.core.methods import Method, alphaedge, private
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.rules.selection.random import Random
from alphaedge.data.synthetic import Store
from alphaedge.errors import InvalidValue
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.simulate import simulate
from alphaedge.simulation.task import Task, WorkerCache, run_task
from alphaedge.simulation.world import World

STORE = Store(edges=4, events=900, items=20, users=12)
USERS = Privacy(epsilon=20.0, user="user", tables=("item",), tally_batches=5)
EVENTS = Privacy(epsilon=20.0, tables=("item",), tally_batches=5)


def run(method: Method, **changes: Any) -> Any:
    return simulate(methods={"private": method}, store=STORE, batch_size=20, **changes)


def scores(method: Method, **changes: Any) -> pl.DataFrame:
    return run(method, **changes).scores


@pytest.mark.parametrize("privacy", [USERS, EVENTS])
@pytest.mark.parametrize("conditions", [Conditions(), Conditions(delay=2), Conditions(drop=0.3)])
def test_what_is_published_is_the_released_model_whatever_happens(
    privacy: Privacy, conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, seen = World.publish, []

    def watched(world: World, edges: list[int]) -> None:
        publish(world, edges)
        assert world.releases is not None
        for edge in edges:
            number = int(world.published.number[edge])
            if not number:
                continue
            place = number % world.published.depth
            seen.append(edge)
            released = world.releases.models
            assert torch.equal(world.published.dense[place, edge], released.dense[edge])
            told = world.releases.told()
            for t, (pool, version) in enumerate(zip(world.published.tables, world.published.version, strict=True)):
                rows = version[place, edge] == number
                assert not (rows & ~told[t][edge]).any()
                assert torch.equal(pool[place, edge][rows], released.tables[t].value[edge][rows][:, : pool.shape[3]])
            assert world.announced[world.own[edge]][-1][1] == {}  # no shares
            assert int(world.published.records[place, edge]) == world.releases.done[edge] * world.batches.size

    monkeypatch.setattr(World, "publish", watched)
    run(private(alphaedge(precision="full"), privacy), conditions=conditions)
    assert len(seen) > 8


def test_executors_agree_on_private_publications() -> None:
    method = private(alphaedge(), USERS)
    stacked, single = scores(method), scores(method, executor="one-at-a-time")
    assert (stacked["score"] - single["score"]).abs().max() < 1e-3


def test_the_same_seed_gives_the_same_noise_and_another_seed_another() -> None:
    method = private(alphaedge(), EVENTS)
    assert scores(method).equals(scores(method))


def test_a_run_goes_on_from_its_checkpoint_with_the_same_ledger(tmp_path: Path) -> None:
    method = private(alphaedge(), USERS)
    whole = scores(method)

    class Stop(Exception):
        pass

    calls = 0

    def stop(name: str, progress: Any) -> None:
        nonlocal calls
        calls += bool(name)
        if calls == 6:
            raise Stop

    with pytest.raises(Stop):
        run(method, checkpoints=tmp_path, checkpoint_every=0.0, watch=stop)
    assert list(tmp_path.glob("*.pt"))
    assert scores(method, checkpoints=tmp_path).equals(whole)


def test_neighbours_are_drawn_and_a_method_without_peers_stays_as_it_is() -> None:
    from alphaedge.core.methods import noagg, nops

    assert private(alphaedge(), EVENTS).selection == Random(5)
    assert private(noagg(), EVENTS) == noagg()
    assert private(nops(), EVENTS).selection == nops().selection


def test_a_mix_is_never_published_with_privacy() -> None:
    with pytest.raises(InvalidValue, match=r"publish: found 'mixed'; allowed: trained"):
        private(alphaedge(publish="mixed"), EVENTS)


def test_a_loose_promise_teaches_peers_more_than_a_strict_one() -> None:
    loose, strict = (private(alphaedge(), Privacy(epsilon=e, tables=("item",), tally_batches=5)) for e in (100.0, 0.1))
    found = {}
    for name, method in (("loose", loose), ("strict", strict)):
        pulls = run(method).pulls
        found[name] = pulls["bytes"].sum() / pulls["count"].sum()
    assert found["loose"] > found["strict"]  # more ids have enough behind them to be told


def test_a_user_that_is_no_field_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidValue, match=r"privacy\.user: found 'customer'"):
        run(private(alphaedge(), Privacy(user="customer")))


def test_a_worker_makes_private_runs_like_any_other() -> None:
    from alphaedge.simulation.config import Settings

    settings = Settings(store=STORE, batch_size=20, methods=("alphaedge",))
    (found,), _ = run_task(Task(settings, "private", private(alphaedge(), EVENTS), (0,), None, None), WorkerCache())
    assert found.edge_batches > 0
