"""Where the noise of private steps comes from.

Noise is drawn and added in double precision. In single precision normal numbers end at less than six deviations, which
is nearer than delta allows; rounding what was added is the receiver's affair.
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Noise(Protocol):
    """Standard normal numbers in double precision, which nobody can predict who must not know them."""

    def __call__(self, edges: Sequence[int], *shape: int) -> Tensor:
        """Numbers [len(edges), *shape] for some of the edges of a step, each from a stream of its own."""
        ...


def with_noise(sums: Tensor, deviation: float, noise: Noise) -> Tensor:
    """Sums [k, ...] with noise of that standard deviation, in place: added in double precision."""
    drawn = noise(range(len(sums)), *sums.shape[1:]).to(sums.device)
    return sums.copy_(sums.double().add_(drawn, alpha=deviation))


def pairs(shape: Sequence[int]) -> int:
    """How many pairs of numbers it takes to fill a shape."""
    return -(-prod(shape) // 2)


def normal(uniform: NDArray[np.float64], *shape: int) -> Tensor:
    """Standard normal numbers [k, *shape], from ``pairs(shape)`` pairs (u, v) of uniform ones for each, [k, 2, pairs].

    u is from above 0 to 1, v from 0 to below 1. A pair gives two, up to 8.5 deviations (Box and Muller, 1958):

        r cos(2 pi v), r sin(2 pi v)    with r = sqrt(-2 log u),
        cos(2 pi v) = 2 / (1 + t^2) - 1, sin(2 pi v) = 2 t / (1 + t^2), t = tan(pi v)

    One tangent takes less time than a sine and a cosine. Works in place: ``uniform`` is lost.
    """
    radius, tangent = uniform[:, 0], uniform[:, 1]
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    tangent *= np.pi
    np.tan(tangent, out=tangent)
    twice = np.square(tangent)
    twice += 1
    np.divide(radius, twice, out=twice)
    twice += twice
    tangent *= twice
    np.subtract(twice, radius, out=radius)
    return torch.from_numpy(uniform.reshape(len(uniform), -1)[:, : prod(shape)]).reshape(len(uniform), *shape)
