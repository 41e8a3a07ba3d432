"""Gradient descent on stacked state is torch's on each model."""

import pytest
import torch

from alphaedge.core.rules.optimizer.sgd import SGD
from alphaedge.errors import InvalidValue


def test_gradient_descent_is_torchs() -> None:
    value, gradient = torch.randn(3, 5), torch.randn(3, 5)
    parameter = torch.nn.Parameter(value.clone())
    parameter.grad = gradient.clone()
    torch.optim.SGD([parameter], lr=0.2).step()
    SGD(0.2).update(value, torch.zeros(3, 5), torch.zeros(3, 5), gradient, torch.ones(3))
    torch.testing.assert_close(value, parameter.detach())


def test_nothing_to_move_is_no_trouble() -> None:
    for shape in ((0, 5), (3, 0)):
        empty = torch.zeros(shape)
        SGD().update(empty, empty.clone(), empty.clone(), empty.clone(), torch.ones(shape[0]))


def test_nothing_moves_without_a_gradient() -> None:
    state = [torch.randn(3, 5) for _ in range(3)]
    before = [x.clone() for x in state]
    SGD().coast(*state, torch.tensor([4, 4, 4]), torch.tensor([9, 0, 2]))
    assert all(torch.equal(a, b) for a, b in zip(state, before, strict=True))


@pytest.mark.parametrize("rate", [0, -0.1, float("nan"), "fast"])
def test_impossible_settings_are_refused(rate: float) -> None:
    with pytest.raises(InvalidValue) as caught:
        SGD(rate=rate)
    assert (caught.value.field, caught.value.found) == ("rate", pytest.approx(rate, nan_ok=True))
