"""The blend of two models takes the share that would have been best so far."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.home import UNUSED_SHARE, Home, combine, no_evidence, parabola
from alphaedge.errors import InvalidValue

_seed = st.integers(0, 999)


def squared(share: float, mixed: Tensor, alone: Tensor, labels: Tensor) -> Tensor:
    """The loss of a blend on each of some batches."""
    return (share * mixed + (1 - share) * alone - labels).square().mean(-1)


def follow(home: Home, parabolas: Tensor) -> tuple[Tensor, list[float]]:
    """The evidence after some batches, and the share before each of them."""
    evidence, shares = no_evidence(1, torch.float64), list[float]()
    for one in parabolas:
        shares.append(float(home.share(evidence)))
        evidence = home.update(evidence, one.double().unsqueeze(0))
    return evidence, shares


def stream(seed: int, batches: int = 40, size: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs of a mixed and of a home model, and labels, that have nothing to do with each other."""
    drawn = torch.randn(3, batches, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn[0], drawn[1], drawn[2]


def parabolas_of(mixed: Tensor, alone: Tensor, labels: Tensor) -> Tensor:
    return parabola(*(squared(share, mixed, alone, labels) for share in (0.0, 0.5, 1.0)))


@given(_seed, st.floats(0, 1))
def test_the_parabola_is_the_loss_of_the_blend_for_squared_error(seed: int, share: float) -> None:
    mixed, alone, labels = stream(seed)
    a, b = parabolas_of(mixed, alone, labels).unbind(-1)
    found = a * share**2 + b * share + squared(0.0, mixed, alone, labels)
    np.testing.assert_allclose(found, squared(share, mixed, alone, labels), rtol=1e-9, atol=1e-9)


@given(_seed, st.floats(0.5, 1))
def test_the_share_is_the_best_one_of_the_discounted_past(seed: int, memory: float) -> None:
    mixed, alone, labels = stream(seed)
    evidence, _ = follow(Home(memory=memory, prior=1e-9), parabolas_of(mixed, alone, labels))
    shares = np.linspace(0, 1, 1001)
    discount = memory ** np.arange(len(mixed) - 1, -1, -1.0)
    losses = [float((squared(s, mixed, alone, labels).numpy() * discount).sum()) for s in shares]
    assert float(Home(memory=memory, prior=1e-9).share(evidence)) == pytest.approx(shares[np.argmin(losses)], abs=2e-3)


@given(_seed, st.sampled_from([1.0, 1e-3, 1e4]))
def test_neither_the_unit_of_the_labels_nor_the_weight_of_the_loss_matters(seed: int, unit: float) -> None:
    mixed, alone, labels = stream(seed)
    _, shares = follow(Home(), parabolas_of(mixed, alone, labels))
    _, same = follow(Home(), 7 * parabolas_of(mixed * unit, alone * unit, labels * unit))
    assert shares == pytest.approx(same, abs=1e-9)


@pytest.mark.parametrize("best", [0.0, 0.3, 1.0])
def test_a_share_that_is_always_best_is_found(best: float) -> None:
    mixed, alone, noise = stream(0, batches=400)
    _, shares = follow(Home(), parabolas_of(mixed, alone, best * mixed + (1 - best) * alone + 0.1 * noise))
    assert shares[0] == Home().start
    assert shares[-1] == pytest.approx(best, abs=0.02)


def test_two_models_that_err_apart_are_better_together_although_one_is_worse() -> None:
    """What comparing the losses of the two cannot see."""
    one, other, labels = stream(0, batches=400)
    mixed, alone = labels + one, labels + 1.2 * other
    _, shares = follow(Home(), parabolas_of(mixed, alone, labels))
    assert shares[-1] == pytest.approx(1.44 / 2.44, abs=0.05)


def _switching(batches: int) -> tuple[Tensor, Tensor, Tensor]:
    """An adversary: whichever model the best share so far leans to is wrong next."""
    mixed, alone = torch.ones(batches, 1).double(), -torch.ones(batches, 1).double()
    labels, total = torch.zeros(batches, 1).double(), 0.0
    for t in range(batches):
        labels[t] = -1.0 if total > 0 else 1.0
        total += float(labels[t])
    return mixed, alone, labels


@pytest.mark.parametrize("batches", [100, 1000, 10000])
@pytest.mark.parametrize("kind", ["random", "adversary"])
def test_without_a_discount_the_regret_on_squared_error_grows_like_a_logarithm(kind: str, batches: int) -> None:
    mixed, alone, labels = stream(1, batches, size=1) if kind == "random" else _switching(batches)
    home, points = Home(memory=1.0, prior=1.0), parabolas_of(mixed, alone, labels)
    _, shares = follow(home, points)
    a, b = points.unbind(-1)
    at = torch.tensor(shares, dtype=torch.float64)
    ours = float((a * at * at + b * at).sum())
    best = min(float((a * s * s + b * s).sum()) for s in np.linspace(0, 1, 201))
    largest = float(a.max() + b.abs().max())
    assert ours - best <= 4 * largest * np.log(1 + batches)


def test_the_blend_follows_when_the_better_model_becomes_the_worse_one() -> None:
    mixed, alone, noise = stream(2, batches=600)
    labels = torch.cat([mixed[:300], alone[300:]]) + 0.1 * noise
    _, shares = follow(Home(), parabolas_of(mixed, alone, labels))
    assert shares[299] > 0.95
    assert shares[-1] < 0.1


def test_the_loss_of_logits_is_close_enough_to_a_parabola() -> None:
    g = torch.Generator().manual_seed(0)
    alone = torch.randn(300, 50, generator=g)
    mixed = alone + torch.randn(300, 50, generator=g)
    labels = torch.bernoulli(torch.sigmoid(0.6 * mixed + 0.4 * alone), generator=g)

    def loss(share: float) -> Tensor:
        found = F.binary_cross_entropy_with_logits(combine(share, mixed, alone), labels, reduction="none")
        return found.mean(1)

    _, shares = follow(Home(), parabola(loss(0.0), loss(0.5), loss(1.0)))
    assert shares[-1] == pytest.approx(0.6, abs=0.1)


def test_before_any_batch_and_between_equal_models_the_share_is_the_first_one() -> None:
    home = Home(start=0.3)
    assert home.share(no_evidence(3, torch.float32)).tolist() == pytest.approx([0.3] * 3)
    losses = torch.rand(5)
    evidence, _ = follow(home, parabola(losses, losses, losses))
    assert float(home.share(evidence)) == pytest.approx(0.3)


@given(_seed, st.floats(0.01, 100), st.floats(0, 1))
def test_shares_lie_between_zero_and_one(seed: int, prior: float, start: float) -> None:
    _, shares = follow(Home(prior=prior, start=start), parabolas_of(*stream(seed)))
    assert all(0 <= share <= 1 for share in shares)


def test_outputs_are_combined_edge_by_edge() -> None:
    share, mixed, alone = torch.rand(3), torch.randn(3, 5), torch.randn(3, 5)
    expected = share.numpy()[:, None] * mixed.numpy() + (1 - share.numpy())[:, None] * alone.numpy()
    np.testing.assert_allclose(combine(share, mixed, alone).numpy(), expected, rtol=1e-6, atol=1e-6)


@given(_seed)
def test_the_combined_output_lies_between_the_two(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    share, mixed, alone = (torch.rand(s, generator=g).double() for s in ((2,), (2, 3), (2, 3)))
    found = combine(share, mixed, alone)
    assert (found >= torch.minimum(mixed, alone) - 1e-12).all()
    assert (found <= torch.maximum(mixed, alone) + 1e-12).all()


def test_updating_changes_none_of_its_arguments() -> None:
    evidence, one = torch.rand(3, 3), torch.rand(3, 2)
    kept = evidence.clone(), one.clone()
    Home().update(evidence, one)
    Home().share(evidence)
    assert torch.equal(evidence, kept[0])
    assert torch.equal(one, kept[1])


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_model_that_has_broken_down_never_has_a_share_again(broken: float) -> None:
    good = parabola(torch.tensor([1.0]), torch.tensor([0.4]), torch.tensor([0.3])).expand(2000, 2)
    lost, half = torch.tensor([broken]), torch.tensor([0.5])
    evidence, _ = follow(Home(), torch.cat([good, parabola(half, half, lost), good]))
    assert float(Home().share(evidence)) < UNUSED_SHARE
    evidence, _ = follow(Home(), torch.cat([good, parabola(lost, half, half), good]))
    assert float(Home().share(evidence)) > 1 - UNUSED_SHARE
    alone, nothing = torch.randn(1, 4), torch.full((1, 4), broken)
    assert torch.equal(combine(0.5, nothing, alone), alone)
    assert torch.equal(combine(0.5, alone, nothing), alone)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"memory": -0.1}, "memory"),
        ({"memory": 1.1}, "memory"),
        ({"start": 1.5}, "start"),
        ({"prior": 0}, "prior"),
        ({"prior": None}, "prior"),
        ({"reset_after": -1}, "reset_after"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Home(**settings)  # type: ignore[arg-type]
    (found,) = settings.values()
    assert caught.value.field == field
    assert caught.value.found == found
