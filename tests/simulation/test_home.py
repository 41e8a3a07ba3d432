"""The home model learns as an edge on its own does."""

import pytest
import torch

from alphaedge import Conditions, Home, Learned
from alphaedge.core.methods import alphaedge, noagg, nops

from .fleets import linear, measured, seen
from .test_rounds import alone_and

SIZE = 5


# A blend that never moves from the home model.
NEVER_MIXED = Home(start=0.0, prior=1e12)


def test_a_home_model_that_predicts_alone_predicts_as_noagg_does() -> None:
    method = alphaedge(aggregation=Learned(weight_batches=1), home=NEVER_MIXED, aggregate_every=5)
    one, alone = alone_and(method, Conditions(delay=1))
    assert torch.allclose(one.log.predictions, alone.log.predictions, atol=1e-6)


@pytest.mark.parametrize("delay", [0, 3])
def test_a_home_model_that_is_fully_trusted_predicts_as_noagg_does(delay: int) -> None:
    guarded = nops(aggregate_every=6, home=NEVER_MIXED)
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
