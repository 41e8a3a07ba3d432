"""The home model learns as an edge on its own does."""

from unittest import mock

import pytest
import torch

from alphaedge import Conditions, Home, Learned
from alphaedge.core.methods import alphaedge, noagg, nops

from .fleets import linear, measured, seen
from .test_rounds import alone_and

SIZE = 5


def test_a_home_model_that_predicts_alone_predicts_as_noagg_does() -> None:
    """A judge that never believes the mixed model: its predictions are those of learning alone."""
    never = Home(temperature=1e-9, memory=0.0, blend=True)
    method = alphaedge(aggregation=Learned(weight_batches=1), home=never, aggregate_every=5)
    with mock.patch.object(Home, "share", lambda self, lead: torch.zeros_like(lead)):
        one, alone = alone_and(method, Conditions(delay=1))
    assert torch.allclose(one.log.predictions, alone.log.predictions, atol=1e-6)


@pytest.mark.parametrize("delay", [0, 3])
def test_a_home_model_that_is_fully_trusted_predicts_as_noagg_does(delay: int) -> None:
    guarded = nops(aggregate_every=6, home=Home(trust=-1e9))
    found = seen(
        methods={"guarded": guarded, "alone": noagg()},
        data=measured(3, 40),
        model=linear,
        rate=0.05,
        batch_size=SIZE,
        conditions=Conditions(delay=delay),
    )
    one, two = (world.log.predictions for world in found.worlds)
    assert torch.allclose(one, two, atol=1e-6)
