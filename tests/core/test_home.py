"""The judge follows the two models' losses and lets the better one speak."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.core.home import Home, combine
from alphaedge.errors import InvalidValue

_loss = st.just(0.0) | st.floats(0.001, 5)
_losses = st.lists(st.tuples(_loss, _loss), min_size=1, max_size=30)


@given(_losses, st.floats(0.01, 1000))
def test_the_unit_of_the_loss_does_not_matter(losses: list[tuple[float, float]], unit: float) -> None:
    lead, same = torch.zeros(2, dtype=torch.float64)
    for mixed, alone in losses:
        lead = Home().update(lead, *torch.tensor([mixed, alone], dtype=torch.float64))
        same = Home().update(same, *torch.tensor([mixed * unit, alone * unit], dtype=torch.float64))
    assert float(lead) == pytest.approx(float(same), abs=1e-6)


@given(_losses, st.floats(0, 1), st.floats(0.1, 10))
def test_the_share_is_the_sigmoid_of_the_discounted_lead(
    losses: list[tuple[float, float]], memory: float, temperature: float
) -> None:
    home = Home(memory=memory, temperature=temperature, trust=0.5)
    lead, discounted = torch.zeros(1).double(), 0.0
    for mixed, alone in losses:
        lead = home.update(lead, *torch.tensor([[mixed], [alone]], dtype=torch.float64))
        discounted = memory * discounted + (2 * (alone - mixed) / (alone + mixed) if alone + mixed > 1e-9 else 0.0)
    expected = 1 / (1 + np.exp(-np.clip(0.5 + temperature * discounted, -700, 700)))
    assert float(home.share(lead)) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_before_any_batch_the_mixed_model_has_the_trust_that_it_is_given() -> None:
    assert Home(trust=0.0).share(torch.zeros(3)).tolist() == [0.5] * 3
    assert float(Home(trust=1.0).share(torch.zeros(1))) == pytest.approx(1 / (1 + np.exp(-1)))


@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=6), st.booleans())
def test_shares_lie_between_zero_and_one_and_rise_with_the_lead(leads: list[float], blend: bool) -> None:
    found = Home(blend=blend).share(torch.tensor(sorted(leads)))
    assert ((found >= 0) & (found <= 1)).all()
    assert (found.diff() >= 0).all()


def test_without_blending_one_model_predicts_alone() -> None:
    home = Home(blend=False, trust=0.0)
    share = home.share(torch.tensor([-0.1, 0.0, 0.3]))
    assert share.tolist() == [0, 1, 1]
    mixed, alone = torch.randn(3, 4), torch.randn(3, 4)
    found = combine(share, mixed, alone)
    assert torch.equal(found[0], alone[0])
    assert torch.equal(found[1:], mixed[1:])


def test_outputs_are_combined_edge_by_edge() -> None:
    share, mixed, alone = torch.rand(3), torch.randn(3, 5), torch.randn(3, 5)
    expected = share.numpy()[:, None] * mixed.numpy() + (1 - share.numpy())[:, None] * alone.numpy()
    np.testing.assert_allclose(combine(share, mixed, alone).numpy(), expected, rtol=1e-6, atol=1e-6)


@given(st.integers(0, 999))
def test_the_combined_output_lies_between_the_two(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    share, mixed, alone = (torch.rand(s, generator=g).double() for s in ((2,), (2, 3), (2, 3)))
    found = combine(share, mixed, alone)
    assert (found >= torch.minimum(mixed, alone) - 1e-12).all()
    assert (found <= torch.maximum(mixed, alone) + 1e-12).all()


def test_the_model_that_has_been_better_lately_wins() -> None:
    home = Home()
    lead = torch.zeros(1)
    for _ in range(200):  # the mixed model is better for a long time
        lead = home.update(lead, torch.tensor([0.5]), torch.tensor([0.6]))
    assert home.share(lead) > 0.99
    for _ in range(200):  # then worse
        lead = home.update(lead, torch.tensor([0.6]), torch.tensor([0.5]))
    assert home.share(lead) < 0.01


def test_without_memory_only_the_last_batch_counts() -> None:
    lead = Home(memory=0).update(torch.tensor([5.0]), torch.tensor([0.7]), torch.tensor([0.4]))
    assert float(lead) == pytest.approx(-0.6 / 1.1)


def test_updating_changes_none_of_its_arguments() -> None:
    lead, mixed, alone = torch.rand(3), torch.rand(3), torch.rand(3)
    kept = lead.clone(), mixed.clone(), alone.clone()
    Home().update(lead, mixed, alone)
    combine(lead, mixed.unsqueeze(1), alone.unsqueeze(1))
    assert all(torch.equal(a, b) for a, b in zip((lead, mixed, alone), kept, strict=True))


def test_the_home_model_speaks_when_the_mixed_one_has_broken_down() -> None:
    for blend in (True, False):
        home = Home(blend=blend)
        alone = torch.randn(1, 4)
        broken = torch.full((1, 4), torch.nan)
        lead = home.update(torch.tensor([1.0]), torch.tensor([torch.nan]), torch.tensor([0.5]))
        assert torch.equal(combine(home.share(lead), broken, alone), alone)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"memory": -0.1}, "memory"),
        ({"memory": 1.1}, "memory"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": -2}, "temperature"),
        ({"temperature": None}, "temperature"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Home(**settings)
    (found,) = settings.values()
    assert caught.value.field == field
    assert caught.value.found == found
    assert caught.value.allowed.startswith("a number ")
