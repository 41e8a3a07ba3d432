"""Where the noise of private steps comes from.

Noise is drawn and added in double precision. In single precision normal numbers end at less than six deviations, which
is nearer than delta allows; rounding what was added is the receiver's affair.
"""

from typing import Protocol

import torch
from torch import Tensor


class Noise(Protocol):
    """Standard normal numbers in double precision, which nobody can predict who must not know them."""

    def __call__(self, edge: int, *shape: int) -> Tensor:
        """Numbers of that shape for the ``edge``-th of the edges of a step."""
        ...


def with_noise(sums: Tensor, deviation: float, noise: Noise) -> Tensor:
    """Sums [k, ...] with noise of that standard deviation, in their own precision."""
    drawn = torch.empty_like(sums, dtype=torch.float64)
    for edge, place in enumerate(drawn.unbind(0)):
        place.copy_(noise(edge, *sums.shape[1:]))
    return drawn.mul_(deviation).add_(sums).to(sums.dtype)
