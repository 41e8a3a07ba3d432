"""Adagrad on stacked state is torch's on each model."""

import pytest
import torch

from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.errors import InvalidValue


@pytest.mark.parametrize("shape", [(3, 7), (3, 4, 5)])
def test_steps_are_those_of_torch(shape: tuple[int, ...]) -> None:
    rule, gradients = Adagrad(rate=0.2, eps=1e-3), torch.randn(20, *shape).double()
    start = torch.randn(shape).double()
    value, m, v = start.clone(), torch.zeros(shape).double(), torch.zeros(shape).double()
    for t, gradient in enumerate(gradients):
        rule.update(value, m, v, gradient, torch.full((shape[0],), t + 1))
    for k in range(shape[0]):
        parameter = torch.nn.Parameter(start[k].clone())
        optimizer = torch.optim.Adagrad([parameter], lr=0.2, eps=1e-3)
        for gradient in gradients[:, k]:
            parameter.grad = gradient.clone()
            optimizer.step()
        torch.testing.assert_close(value[k], parameter.detach(), rtol=1e-12, atol=1e-12)
    assert not m.any(), "Adagrad keeps no first moment"


def test_nothing_moves_without_a_gradient() -> None:
    state = [torch.randn(3, 5) for _ in range(3)]
    before = [x.clone() for x in state]
    Adagrad().coast(*state, torch.tensor([4, 4, 4]), torch.tensor([9, 0, 2]))
    assert all(torch.equal(a, b) for a, b in zip(state, before, strict=True))


@pytest.mark.parametrize(("settings", "field"), [({"rate": 0}, "rate"), ({"eps": -1}, "eps")])
def test_impossible_settings_are_refused(settings: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Adagrad(**settings)
    assert caught.value.field == field
