"""The change model starts as persistence and learns what changes the next value."""

import pytest
import torch
from torch import Tensor

from alphaedge import Field, InvalidValue
from alphaedge.models.change import Change

HOURS = 3
FIELDS = (Field("past", "number", 2 * HOURS), Field("now", "number", 2))


def inputs(count: int = 12) -> list[Tensor]:
    return [torch.rand(count, 2 * HOURS) * 50 + 1, torch.randn(count, 2)]


def trained(output_scale: float = 0.1) -> Change:
    """Make a model that has seen a batch and has no zero weights."""
    module = Change(FIELDS, hours=HOURS, hidden=(8,), output_scale=output_scale)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    module.train()(*inputs(200))
    return module.eval()


def test_it_starts_exactly_as_persistence() -> None:
    module = Change(FIELDS, hours=HOURS)
    for _ in range(3):
        batch = inputs()
        assert torch.equal(module(*batch), batch[0][:, 0])


def test_it_learns_that_a_rise_continues() -> None:
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


def test_its_inputs_are_changes_and_newest_levels() -> None:
    """A history times a factor has the same changes; only its newest level differs."""
    module = trained()
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


def test_the_output_scale_is_in_the_exponent_and_the_factor_is_at_most_e_squared() -> None:
    torch.manual_seed(1)
    small, large = trained(0.01), trained(1e6)
    large.load_state_dict(small.state_dict())
    batch = inputs()
    exponent = (small(*batch) / batch[0][:, 0]).log()
    assert (exponent.abs() > 1e-6).all()
    expected = batch[0][:, 0] * torch.exp(torch.where(exponent > 0, 2.0, -2.0))
    torch.testing.assert_close(large(*batch), expected)


@pytest.mark.parametrize(
    "fields", [(Field("past", "number", 4),), (Field("past", "number", 3), Field("kind", "code", 2))]
)
def test_other_fields_are_refused(fields: tuple[Field, ...]) -> None:
    with pytest.raises(InvalidValue, match="numbers only, and of the first 3 for each quantity"):
        Change(fields, hours=HOURS)
