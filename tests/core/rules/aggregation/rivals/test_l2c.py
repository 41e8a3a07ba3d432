"""L2C: softmax weights that descend the loss of the mixture."""

import math

import pytest
import torch

from alphaedge.core.aggregation import Weights
from alphaedge.core.rules.aggregation.rivals.l2c import L2C

from ....mixes import fresh, mix_case
from .line import line, mixed


def test_by_hand_the_first_step_goes_against_each_slope_by_the_rate() -> None:
    # At equal weights M = 2 and dL/dM = 2 (2 - 1) = 2, so dL/dalpha = 2 (M_j - 2) / 4: -1, -0.5, 0, 1.5.
    value, raw = mixed(L2C(steps=1, rate=0.1), line(0.0, 1.0, 2.0, 5.0, label=1.0))
    powers = [math.exp(0.1), math.exp(0.1), 1.0, math.exp(-0.1)]
    assert raw == pytest.approx([p / sum(powers) for p in powers], abs=1e-6)
    assert value == pytest.approx((powers[1] + 2 * powers[2] + 5 * powers[3]) / sum(powers), abs=1e-6)


def test_many_steps_find_the_weights_of_the_smallest_loss() -> None:
    value, _ = mixed(L2C(steps=400, rate=0.05), line(0.0, 3.0, 8.0, label=1.0))
    assert value == pytest.approx(1.0, abs=0.01)


def test_the_slope_is_that_of_autograd_through_the_softmax() -> None:
    case = mix_case("deepfm", edges=1, peers=3)
    case.held.present[:] = torch.tensor([[True, False, True]])
    alpha = torch.tensor([0.3, -0.2, 9.0, 0.5], dtype=torch.float64, requires_grad=True)
    taking = torch.tensor([True, True, False, True])
    case.loss(0, alpha.masked_fill(~taking, -torch.inf).softmax(0)).backward()
    start = fresh(L2C(), case.ones())
    numbers = {**start.numbers, "alpha": alpha.detach().view(1, -1)}
    _, after = case.mix(L2C(steps=1), Weights(start.raw, numbers))
    assert alpha.grad is not None
    torch.testing.assert_close(after.numbers["m"][0], 0.1 * alpha.grad)  # Adam's first moment is 0.1 of the gradient


def test_an_absent_peer_keeps_its_weight_and_numbers() -> None:
    rule, mixing = L2C(), line(0.0, 1.0, 5.0, present=[True, False])
    numbers = {name: torch.full((1, 3), 0.25, dtype=torch.float64) for name in rule.memory.numbers}
    after = rule.weigh(mixing, Weights(torch.full((1, 3), 0.7, dtype=torch.float64), numbers))
    assert float(after.raw[0, 2]) == pytest.approx(0.7)
    assert all(float(x[0, 2]) == pytest.approx(0.25) for x in after.numbers.values())
    assert float(after.numbers["alpha"][0, 1]) != pytest.approx(0.25)
