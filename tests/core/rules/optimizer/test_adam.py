"""Adam on stacked state is torch's Adam on each model."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.errors import InvalidValue


def _torch_adam(value: Tensor, gradients: Sequence[Tensor], warmup: Sequence[Tensor], adam: Adam) -> Tensor:
    """One model: ``warmup`` steps, then ``gradients``, with torch.optim.Adam."""
    parameter = torch.nn.Parameter(value.clone())
    optimizer = torch.optim.Adam([parameter], lr=adam.rate, betas=(adam.beta1, adam.beta2), eps=adam.eps)
    for gradient in (*warmup, *gradients):
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("shape", [(3, 7), (3, 4, 5), (1, 6), (3, 1)])
def test_steps_of_models_of_one_age_are_those_of_torch(shape: tuple[int, ...], steps: int, dtype: torch.dtype) -> None:
    adam = Adam(rate=0.01)
    start = torch.randn(shape, dtype=dtype)
    gradients = torch.randn(steps, *shape, dtype=dtype)
    value, m, v = start.clone(), torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
    for t, gradient in enumerate(gradients):
        adam.update(value, m, v, gradient, torch.full((shape[0],), t + 1))
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    for k in range(shape[0]):
        expected = _torch_adam(start[k], gradients[:, k], [], adam)
        torch.testing.assert_close(value[k], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("shape", [(4, 7), (4, 3, 5)])
def test_steps_of_models_of_different_ages_are_those_of_torch(
    shape: tuple[int, ...], steps: int, dtype: torch.dtype
) -> None:
    adam = Adam(rate=0.01)
    ages = [0, 3, 3, 40]
    start = torch.randn(shape, dtype=dtype)
    value, m, v = start.clone(), torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)
    warmups = [list(torch.randn(age, *shape[1:], dtype=dtype)) for age in ages]
    for k, warmup in enumerate(warmups):  # each model alone, up to its age
        for t, gradient in enumerate(warmup):
            adam.update(value[k : k + 1], m[k : k + 1], v[k : k + 1], gradient[None], torch.tensor([t + 1]))
    gradients = torch.randn(steps, *shape, dtype=dtype)
    for t, gradient in enumerate(gradients):
        adam.update(value, m, v, gradient, torch.tensor(ages) + t + 1)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    for k in range(shape[0]):
        expected = _torch_adam(start[k], gradients[:, k], warmups[k], adam)
        torch.testing.assert_close(value[k], expected, rtol=tolerance, atol=tolerance)


def test_other_settings_reach_the_rule() -> None:
    adam = Adam(rate=0.3, beta1=0.5, beta2=0.8, eps=0.01)
    start, gradients = torch.randn(2, 5).double(), torch.randn(9, 2, 5).double()
    value, m, v = start.clone(), torch.zeros(2, 5).double(), torch.zeros(2, 5).double()
    for t, gradient in enumerate(gradients):
        adam.update(value, m, v, gradient, torch.full((2,), t + 1))
    for k in range(2):
        torch.testing.assert_close(value[k], _torch_adam(start[k], gradients[:, k], [], adam), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [[4, 4, 4], [1, 2, 9]])
def test_the_strides_of_a_gradient_do_not_matter(steps: list[int]) -> None:
    gradient = torch.randn(3, 5, 4)
    results = []
    for g in (
        gradient,
        gradient.transpose(1, 2).contiguous().transpose(1, 2),
        gradient.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    ):
        value, m, v = torch.ones(3, 5, 4), torch.zeros(3, 5, 4), torch.zeros(3, 5, 4)
        Adam().update(value, m, v, g, torch.tensor(steps))
        results.append(torch.cat([value, m, v]))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_an_update_leaves_gradient_and_steps_alone() -> None:
    gradient, steps = torch.randn(3, 5), torch.tensor([4, 5, 6])
    kept = gradient.clone(), steps.clone()
    Adam().update(torch.ones(3, 5), torch.zeros(3, 5), torch.zeros(3, 5), gradient, steps)
    assert torch.equal(gradient, kept[0])
    assert torch.equal(steps, kept[1])


def test_nothing_to_move_is_no_trouble() -> None:
    for shape in ((0, 5), (3, 0)):
        empty = torch.zeros(shape)
        Adam().update(empty, empty.clone(), empty.clone(), empty.clone(), torch.ones(shape[0]))


def _coast_and_walk(adam: Adam, ages: list[int], missed: list[int], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """(value, m, v) by ``coast``, the same by explicit steps with gradient zero, and the value before."""
    k = len(ages)
    value, m, v = (torch.zeros(k, 60, dtype=torch.float64) for _ in range(3))
    for e, age in enumerate(ages):  # gradients of very different sizes
        scale = 10 ** torch.linspace(-6, 1, 60, dtype=torch.float64)
        for t in range(min(age, 200)):
            adam.update(
                value[e : e + 1],
                m[e : e + 1],
                v[e : e + 1],
                (torch.randn(1, 60) * scale),
                torch.tensor([t + 1]),
            )
    coasting = [x.to(dtype, copy=True) for x in (value, m, v)]
    walking = [x.to(dtype).double() for x in (value, m, v)]
    start = walking[0].clone()
    adam.coast(*coasting, torch.tensor(ages), torch.tensor(missed))
    for e in range(k):
        for s in range(missed[e]):
            row = [x[e : e + 1] for x in walking]
            adam.update(*row, torch.zeros(1, 60, dtype=torch.float64), torch.tensor([ages[e] + s + 1]))
    return (*coasting, *walking, start)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ages", [[1, 5, 30], [100, 700, 5000]])
@pytest.mark.parametrize("missed", [[0, 1, 3], [19, 7, 1], [64, 200, 0]])
def test_coasting_is_as_many_steps_with_gradient_zero(ages: list[int], missed: list[int], dtype: torch.dtype) -> None:
    value, m, v, value_, m_, v_, start = _coast_and_walk(Adam(rate=0.001), ages, missed, dtype)
    rounding = 1e-6 if dtype == torch.float32 else 1e-13  # of each of the few pieces of a coast
    torch.testing.assert_close(m.double(), m_, rtol=10 * rounding, atol=1e-40)
    torch.testing.assert_close(v.double(), v_, rtol=10 * rounding, atol=1e-40)
    error, moved = (value.double() - value_).abs(), (value_ - start).abs()
    assert (error <= 2e-6 * moved + rounding * value_.abs()).all()
    for e, count in enumerate(missed):
        assert (moved[e].max() > 0) == (count > 0)


def test_a_model_that_missed_nothing_does_not_move_while_others_coast() -> None:
    value, m, v = torch.randn(2, 4), torch.randn(2, 4), torch.rand(2, 4)
    kept = value[0].clone(), m[0].clone(), v[0].clone()
    Adam().coast(value, m, v, torch.tensor([50, 50]), torch.tensor([0, 30]))
    assert torch.equal(value[0], kept[0])
    assert torch.equal(m[0], kept[1])
    assert torch.equal(v[0], kept[2])


def test_rows_that_were_never_touched_stay_while_they_coast() -> None:
    value = torch.randn(2, 3, 4)
    kept = value.clone()
    Adam().coast(value, torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), torch.tensor([0, 9]), torch.tensor([5, 40]))
    assert torch.equal(value, kept)


def test_rows_of_several_models_coast_by_the_clock_of_their_owner() -> None:
    before, missed = torch.tensor([3, 400, 50]), torch.tensor([30, 7, 0])
    owner = torch.tensor([1, 0, 0, 2, 1])
    rows = [torch.randn(5, 4).double(), torch.randn(5, 4).double(), torch.rand(5, 4).double()]
    together = [r.clone() for r in rows]
    Adam().coast(*together, before, missed, owner)
    for u, model in enumerate(owner.tolist()):
        alone = [r[u : u + 1].clone() for r in rows]
        Adam().coast(*alone, before[model : model + 1], missed[model : model + 1])
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[u], b[0], rtol=1e-5, atol=1e-9)


@given(before=st.integers(0, 3000), missed=st.integers(0, 120), seed=st.integers(0, 99))
def test_coasting_in_two_legs_is_coasting_in_one(before: int, missed: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    m, v = (torch.randn(1, 5, generator=generator).double() for _ in range(2))
    one = [torch.zeros(1, 5).double(), m.clone(), v.square()]
    two = [torch.zeros(1, 5).double(), m.clone(), v.square()]
    leg = missed // 3
    Adam().coast(*one, torch.tensor([before]), torch.tensor([missed]))
    Adam().coast(*two, torch.tensor([before]), torch.tensor([leg]))
    Adam().coast(*two, torch.tensor([before + leg]), torch.tensor([missed - leg]))
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "field", "found"),
    [
        (lambda: Adam(rate=0), "rate", 0),
        (lambda: Adam(rate=-0.1), "rate", -0.1),
        (lambda: Adam(rate=float("nan")), "rate", None),
        (lambda: Adam(rate=float("inf")), "rate", float("inf")),
        (lambda: Adam(rate=True), "rate", True),
        (lambda: Adam(rate="fast"), "rate", "fast"),
        (lambda: Adam(beta1=-0.1), "beta1", -0.1),
        (lambda: Adam(beta1=1.1), "beta1", 1.1),
        (lambda: Adam(beta1=1.0), "beta1", 1.0),
        (lambda: Adam(beta2=2), "beta2", 2),
        (lambda: Adam(beta2=1.0), "beta2", 1.0),
        (lambda: Adam(eps=0), "eps", 0),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], Adam], field: str, found: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        make()
    assert caught.value.field == field
    assert found is None or caught.value.found == found
    assert str(caught.value).startswith(f"{field}: found ")
    assert caught.value.allowed in str(caught.value)
