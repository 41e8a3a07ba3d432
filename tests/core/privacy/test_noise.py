"""Noise is normal, in double precision, and added in double precision."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from alphaedge.core.privacy.noise import Noise, normal, pairs, with_noise
from alphaedge.edge.learning.noise_key import SecretNoise
from alphaedge.simulation.releases import SeededNoise


def test_pairs_of_uniform_numbers_give_what_box_and_muller_give() -> None:
    uniform = np.random.default_rng(0).random((2, 5000))
    uniform[:, :4] = [[1, 2**-53, 2**-53, 2**-53], [0.25, 0, 0.5, 0.75]]
    radius, angle = np.sqrt(-2 * np.log(uniform[0])), 2 * np.pi * uniform[1]
    expected = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    found = normal(uniform.copy()[None], 3, 3333)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.flatten(), expected[:9999], rtol=0, atol=1e-13)


@pytest.mark.parametrize("make", [lambda: SeededNoise(["name"]), lambda: SecretNoise(bytes(32), "terms")(1)])
@pytest.mark.parametrize("shape", [(), (1,), (7, 3), (300, 1001)])
def test_noise_of_any_shape_is_drawn_again_from_its_name(make: Callable[[], Noise], shape: tuple[int, ...]) -> None:
    first, again = make(), make()
    drawn = first([0], *shape)
    assert drawn.shape == (1, *shape)
    assert drawn.dtype == torch.float64
    assert torch.equal(drawn, again([0], *shape))
    if drawn.numel() > 10_000:
        assert float(drawn.mean()) == pytest.approx(0, abs=0.01)
        assert float(drawn.std()) == pytest.approx(1, abs=0.01)
        assert float(drawn.square().square().mean()) == pytest.approx(3, abs=0.1)


def test_sums_get_noise_in_double_precision() -> None:
    sums, drawn = torch.full((2, 5), 0.1), torch.full((5,), 1 / 3, dtype=torch.float64)

    def noise(edges: Sequence[int], *shape: int) -> Tensor:
        assert shape == (5,)
        return torch.stack([drawn * (1 + edge) for edge in edges])

    expected = (sums.double() + 1e-7 * torch.stack([drawn, 2 * drawn])).float()
    assert torch.equal(with_noise(sums, 1e-7, noise), expected)


def test_an_odd_number_takes_one_half_of_its_last_pair() -> None:
    assert [pairs(shape) for shape in ((), (1,), (2,), (3, 5))] == [1, 1, 1, 8]
