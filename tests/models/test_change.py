"""A model of the change starts as persistence and learns what moves the next value."""

import pytest
import torch
from torch import Tensor

from alphaedge import Field, InvalidValue
from alphaedge.models.change import Change

HOURS = 3
FIELDS = (Field("past", "number", 2 * HOURS), Field("now", "number", 2))


def inputs(count: int = 12) -> list[Tensor]:
    return [torch.rand(count, 2 * HOURS) * 50 + 1, torch.randn(count, 2)]


def settled(unit: float = 0.1) -> Change:
    """One that has seen a batch and has weights everywhere."""
    module = Change(FIELDS, hours=HOURS, hidden=(8,), unit=unit)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    module.train()(*inputs(200))
    return module.eval()


def test_it_starts_as_persistence_exactly() -> None:
    module = Change(FIELDS, hours=HOURS)
    for _ in range(3):
        batch = inputs()
        assert torch.equal(module(*batch), batch[0][:, 0])


def test_it_learns_that_a_rise_goes_on() -> None:
    torch.manual_seed(0)
    module = Change(FIELDS, hours=HOURS)
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    errors = []
    for _ in range(200):
        batch = inputs(50)
        label = batch[0][:, 0] * (batch[0][:, 0] / batch[0][:, 1]) ** 0.2
        loss = (module(*batch) / label).log().abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    assert sum(errors[-20:]) < 0.3 * sum(errors[:20])


def test_it_sees_changes_and_newest_levels() -> None:
    """Every quantity times a factor is the same history, but for its newest level."""
    module = settled()
    past, now = inputs()
    seen: list[Tensor] = []
    module.norms[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    large = 1000 * past  # so large that log1p is log
    module(large, now)
    module(2 * large, now)
    levels = [0, HOURS]
    others = [i for i in range(2 * HOURS) if i not in levels]
    torch.testing.assert_close(seen[0][:, others], seen[1][:, others], rtol=0, atol=1e-3)
    torch.testing.assert_close(
        seen[1][:, levels] - seen[0][:, levels], torch.full((12, 2), 2.0).log(), rtol=0, atol=1e-3
    )
    torch.testing.assert_close(seen[0][:, 1], (large[:, 0].log1p() - large[:, 1].log1p()))


def test_the_unit_is_in_the_exponent_and_the_factor_stays_within_e_squared() -> None:
    torch.manual_seed(1)
    small, large = settled(0.01), settled(1e6)
    large.load_state_dict(small.state_dict())
    batch = inputs()
    exponent = (small(*batch) / batch[0][:, 0]).log()
    assert (exponent.abs() > 1e-6).all()
    expected = batch[0][:, 0] * torch.exp(torch.where(exponent > 0, 2.0, -2.0))
    torch.testing.assert_close(large(*batch), expected)


@pytest.mark.parametrize(
    "fields", [(Field("past", "number", 4),), (Field("past", "number", 3), Field("kind", "category", 2))]
)
def test_other_fields_are_refused(fields: tuple[Field, ...]) -> None:
    with pytest.raises(InvalidValue, match="numbers only, and of the first 3 for each quantity"):
        Change(fields, hours=HOURS)
