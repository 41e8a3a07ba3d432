"""An audit in one run does not cry wolf, and does cry where noise or clipping is missing."""

import pytest
import torch

from alphaedge.audit import reference
from alphaedge.audit.canaries import NOBODY, plant
from alphaedge.audit.one_run import OneRun, audit_in_one_run, learning_of
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.state import ModelState
from alphaedge.errors import InvalidValue

from .worlds import BATCH, NUMBERS, Quieter, World, draw, numbers, shop, silence

CANARIES = 200
PROMISES = {
    "events": (numbers, Privacy(epsilon=1.0)),
    "events and items": (shop, Privacy(epsilon=1.0, tables=("item",))),
    "users": (shop, Privacy(epsilon=1.0, user="user", tables=("item",))),
    "users, twice": (shop, Privacy(epsilon=1.0, user="user", participations=2)),
}


def audited(world: World, privacy: Privacy, **more: object) -> OneRun:
    settings = {"batch_size": BATCH, "canaries": CANARIES} | more
    return audit_in_one_run(world.model, world.events, privacy, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("promise", PROMISES)
def test_the_promise_stands_with_noise(promise: str) -> None:
    make, privacy = PROMISES[promise]
    assert not audited(make(), privacy).broken


@pytest.mark.long
@pytest.mark.parametrize("promise", ["events", "users"])
def test_the_bound_exceeds_the_promise_in_at_most_one_of_twenty_audits(promise: str) -> None:
    make, privacy = PROMISES[promise]
    assert sum(audited(make(seed), privacy, seed=seed).broken for seed in range(20)) <= 1


@pytest.mark.parametrize("promise", ["events", "users", "users, twice"])
def test_without_noise_a_promise_of_one_and_of_two_is_refuted(promise: str) -> None:
    make, privacy = PROMISES[promise]
    found = audited(make(), privacy, noise=silence)
    assert found.broken
    assert found.guesses.epsilon > 2


def test_noise_of_a_tenth_is_found_out() -> None:
    assert audited(shop(), PROMISES["events and items"][1], noise=Quieter(0.1, 0)).broken


def test_more_is_observed_where_less_is_promised() -> None:
    assert audited(numbers(), Privacy(epsilon=30.0)).guesses.epsilon > 1.5


def test_what_a_step_tells_without_noise_is_what_the_auditor_expects() -> None:
    """The auditor computes clipped sums on its own; here is nothing but them, to the last digits."""
    world, privacy = shop(), Privacy(epsilon=1.0, user="user", tables=("item",))
    learning = learning_of(world.model, privacy, BATCH)
    released = learning.start(ModelState.start([world.model], [0]))
    for start in range(3):
        which = torch.arange(start * BATCH, (start + 1) * BATCH)
        events = world.events.batch(world.model, which.unsqueeze(0))
        users = world.events.users("user")[which] % 5  # some have several events
        number = torch.unique(users, return_inverse=True)[1]
        every = torch.ones(1, BATCH, dtype=torch.bool)
        before = released.models.copy()
        lot = Lot.of_users(events, users.unsqueeze(0), every)
        learning.step(released, torch.tensor([0]), lot, silence(0))
        if start == 0:
            continue  # scales
        norms, mechanism = learning.gradients.norms, learning.mechanism
        added = reference.added(world.model, norms, before, events, number, mechanism)
        told = reference.told(norms, before, released.models, BATCH)
        torch.testing.assert_close(added.dense.sum(0), told.dense, atol=2e-4, rtol=1e-3)
        torch.testing.assert_close(added.statistics.sum(0), told.statistics, atol=2e-2, rtol=1e-2)


def test_canaries_are_in_by_fair_coins_and_each_in_as_many_lots_as_may_count() -> None:
    world, privacy = shop(), Privacy(user="user", participations=2)
    planted = plant(world.events, privacy, canaries=CANARIES, first=10 * BATCH, size=BATCH, seed=0)
    assert 60 < int(planted.coins.sum()) < 140
    lots = [set(planted.canary[lot].tolist()) - {NOBODY} for lot in planted.lots]
    assert not lots[0]
    assert all(sum(canary in lot for lot in lots) == 2 for canary in range(CANARIES))
    users = planted.events.users("user")
    for canary in range(CANARIES):
        assert set(planted.canary[users == users[planted.canary == canary][0]].tolist()) == {canary}


def test_too_many_canaries_are_refused_with_how_many_there_may_be() -> None:
    with pytest.raises(InvalidValue, match=r"canaries: found 5000; allowed: from 20 to 800"):
        audited(numbers(), Privacy(), canaries=5000)
    with pytest.raises(InvalidValue, match="from 20"):
        audited(numbers(), Privacy(), canaries=5)


def test_a_user_field_that_is_no_field_is_refused() -> None:
    with pytest.raises(InvalidValue, match="user"):
        audited(World(numbers().model, draw(NUMBERS, BATCH * 20, 0)), Privacy(user="nobody"))
