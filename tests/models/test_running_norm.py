"""A running norm uses the mean and variance of the examples before a batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alphaedge.models.running_norm import RunningNorm

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=6)
SEEDS = st.integers(0, 2**16)


def batches(sizes: list[int], seed: int, columns: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centre, spread = torch.tensor([0.0, 100.0, -7.0]), torch.tensor([1.0, 20.0, 0.1])
    return [torch.randn(n, columns, generator=generator) * spread + centre for n in sizes]


def feed(norm: RunningNorm, parts: list[Tensor]) -> RunningNorm:
    for part in parts:
        norm(part)
    return norm


@given(SIZES, SEEDS)
def test_mean_and_variance_are_those_of_all_examples_seen(sizes: list[int], seed: int) -> None:
    parts = batches(sizes, seed)
    norm = feed(RunningNorm(3), parts)
    whole = torch.cat(parts).double().numpy()
    np.testing.assert_allclose(norm.mean.numpy(), whole.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(norm.variance.numpy(), whole.var(0), rtol=1e-3, atol=1e-5)
    assert norm.seen.item() == sum(sizes)


@given(SIZES, SEEDS)
def test_a_batch_is_normalised_by_the_batches_before_it(sizes: list[int], seed: int) -> None:
    *before, last = batches([30, *sizes], seed)
    norm = feed(RunningNorm(3, limit=1e9), before)
    known = torch.cat(before).double().numpy()
    expected = (last.double().numpy() - known.mean(0)) / known.std(0)
    np.testing.assert_allclose(norm(last).numpy(), expected, rtol=1e-2, atol=1e-3)


@given(SIZES, SEEDS)
def test_training_and_prediction_give_the_same_output(sizes: list[int], seed: int) -> None:
    *before, last = batches([*sizes, 5], seed)
    norm = feed(RunningNorm(3), before)
    predicted = norm.eval()(last)
    trained = norm.train()(last)
    assert torch.equal(predicted, trained)


def test_prediction_updates_nothing() -> None:
    before, last = batches([20, 20], 0)
    norm = feed(RunningNorm(3), [before])
    kept = {name: value.clone() for name, value in norm.state_dict().items()}
    norm.eval()(last)
    assert all(torch.equal(value, kept[name]) for name, value in norm.state_dict().items())


def test_before_the_first_batch_everything_is_zero() -> None:
    norm = RunningNorm(3)
    (batch,) = batches([8], 0)
    assert torch.equal(norm.eval()(batch), torch.zeros(8, 3))
    assert torch.equal(norm.train()(batch), torch.zeros(8, 3)), "the first batch is not normalised by itself"
    assert norm(batch).abs().sum() > 0


@pytest.mark.parametrize("value", [0.0, 1.0, -3e4, 0.1, 1010.3])
def test_a_constant_column_gives_zero(value: float) -> None:
    norm = RunningNorm(1)
    for _ in range(20):
        assert torch.equal(norm(torch.full((50, 1), value)), torch.zeros(50, 1))


def test_a_constant_column_counts_once_it_varies() -> None:
    norm = feed(RunningNorm(1), [torch.ones(10, 1)])
    assert torch.equal(norm(torch.full((10, 1), 3.0)), torch.zeros(10, 1)), "no scale is known yet"
    torch.testing.assert_close(norm(torch.full((1, 1), 3.0)), torch.ones(1, 1))  # mean 2, deviation 1


@given(st.floats(0.1, 10), st.floats(1e3, 1e30))
def test_no_output_exceeds_the_limit(limit: float, far: float) -> None:
    norm = feed(RunningNorm(1, limit=limit), [torch.tensor([[-1.0], [1.0]])])
    outputs = norm.eval()(torch.tensor([[far], [-far], [0.0]]))
    torch.testing.assert_close(outputs, torch.tensor([[limit], [-limit], [0.0]]))


def test_with_a_short_memory_old_batches_fade() -> None:
    old, new = [torch.full((10, 1), 100.0)] * 50, [torch.tensor([[-1.0], [1.0]] * 5)] * 30
    short, long = (feed(RunningNorm(1, memory=memory), old + new) for memory in (10, 1e9))
    assert abs(short.mean.item()) < 1e-4
    assert short.variance.item() == pytest.approx(1, abs=1e-3)
    assert long.mean.item() == pytest.approx(100 * 50 / 80, rel=1e-4)


def test_the_past_weighs_at_most_as_much_as_the_memory() -> None:
    norm = feed(RunningNorm(1, memory=30), [torch.zeros(100, 1), torch.full((10, 1), 4.0)])
    assert norm.mean.item() == pytest.approx(1.0)  # 30 zeros and 10 fours
    assert norm.variance.item() == pytest.approx(3.0)


def test_gradients_do_not_reach_the_statistics() -> None:
    norm = feed(RunningNorm(2), [torch.randn(20, 2)])
    batch = torch.randn(5, 2, requires_grad=True)
    norm(batch).sum().backward()
    assert batch.grad is not None
    assert not norm.mean.requires_grad
    assert list(norm.parameters()) == []
    assert set(dict(norm.named_buffers())) == {"mean", "variance", "seen"}
