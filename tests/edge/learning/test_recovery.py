"""An edge recovers: from a bad model to start from, and from a mixed model that is of no use."""

from dataclasses import replace

import pytest
import torch

from alphaedge.core.home import UNUSED_SHARE
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.publication import PulledModel

from .test_learner import EVERY, Fleet, shop_fleet


def started_from(fleet: Fleet, dense: torch.Tensor) -> Learner:
    """Edge 0, started from a peer's model and taught its first batch."""
    me = fleet.learner("0")
    me.bootstrap([PulledModel(1, 100, dense, {}, (), ())])
    me.learn(fleet.examples(0, 0))
    return me


def test_a_start_that_is_far_worse_than_none_is_given_up_on_the_first_batch() -> None:
    fleet = shop_fleet()
    alone = fleet.learner("0")
    alone.learn(fleet.examples(0, 0))
    for poison in (100 * torch.randn_like(alone.mixed.dense[0]), torch.full_like(alone.mixed.dense[0], torch.nan)):
        misled = started_from(fleet, poison)
        assert misled.gave_up_start
        assert torch.equal(misled.mixed.dense, alone.mixed.dense)
        assert misled.home is not None
        assert alone.home is not None
        assert torch.equal(misled.home.dense, alone.home.dense)


@pytest.fixture(scope="module")
def lived() -> Fleet:
    """A fleet at the end of its streams, to look at."""
    fleet = shop_fleet()
    fleet.live()
    return fleet


def test_one_hostile_model_of_three_does_not_spoil_a_start(lived: Fleet) -> None:
    good = [lived.edges[name].mixed.dense[0] for name in ("1", "2")]
    low, high = torch.minimum(*good), torch.maximum(*good)
    for poison in (torch.full_like(low, 1e30), -1e30 * torch.ones_like(low), torch.randn_like(low)):
        me = lived.learner("0")
        me.bootstrap([PulledModel(1, 100, dense, {}, (), ()) for dense in (good[0], poison, good[1])])
        assert bool(((low <= me.mixed.dense[0]) & (me.mixed.dense[0] <= high)).all())


def test_a_start_that_helps_is_kept(lived: Fleet) -> None:
    teacher = lived.edges["1"].mixed.dense[0]
    started = started_from(lived, teacher)
    assert not started.gave_up_start
    assert float((started.mixed.dense[0] - teacher).abs().max()) < 0.1


def spoiled(reset_after: int) -> Learner:
    """An edge whose mixed model is wrecked after a while, and that goes on to learn."""
    fleet = shop_fleet()
    home = fleet.method.home
    assert home is not None
    fleet.method = replace(fleet.method, home=replace(home, reset_after=reset_after))
    me = fleet.learner("0")
    for number in range(3 * EVERY):
        me.learn(fleet.examples(0, number))
        if number == 2:
            me.mixed.dense *= -30
        if me.due:
            me.start_round()
            me.mix([])
            me.finish_round(["0"], {})
    return me


def test_a_mixed_model_of_no_use_starts_anew_from_the_home_model() -> None:
    with_reset, without = spoiled(reset_after=4), spoiled(reset_after=0)
    home = with_reset.method.home
    assert home is not None
    assert float(home.share(without.evidence)) < UNUSED_SHARE
    assert float(home.share(with_reset.evidence)) > 0.5
    assert with_reset.home is not None
    assert torch.equal(with_reset.mixed.dense, with_reset.home.dense), "nobody to mix with: both learn the same since"


def test_a_reset_trains_nothing_twice() -> None:
    me = spoiled(reset_after=4)
    assert me.records == 3 * EVERY * 5
    assert me.home is not None
    assert torch.equal(me.mixed.steps, me.home.steps)


def test_a_round_with_a_reset_mixes_nothing() -> None:
    fleet = shop_fleet()
    me = fleet.learner("0")
    for number in range(EVERY):
        me.learn(fleet.examples(0, number))
    me.unused = torch.full_like(me.unused, 1000)
    me.start_round()
    assert me.reset
    assert me.mix(["1"]) == {"0": 1.0}
    me.finish_round(["0", "1"], {})
    assert not me.reset
    assert me.waiting == []
    assert me.aggregations == 1


@pytest.mark.parametrize("name", ["weight", "numbers"])
def test_a_reset_gives_the_neighbours_their_first_weights_back(name: str) -> None:
    me = shop_fleet().learner("0")
    me.join(["0", "1", "2"])
    before = {j: getattr(link, name) for j, link in me.links.known.items()}
    for link in me.links.known.values():
        link.weight, link.numbers = 0.0, {"m": 3.0}
    me.links.restart(me.method.aggregation.memory)
    assert {j: getattr(link, name) for j, link in me.links.known.items()} == before
