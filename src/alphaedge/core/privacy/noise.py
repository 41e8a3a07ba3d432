"""Where the noise of private steps comes from."""

from typing import Protocol

import torch
from torch import Tensor


class Noise(Protocol):
    """Standard normal numbers, which nobody can predict who must not know them."""

    def __call__(self, edge: int, *shape: int) -> Tensor:
        """Numbers of that shape for the ``edge``-th of the edges of a step."""
        ...


def stacked(noise: Noise, like: Tensor) -> Tensor:
    """Noise in the shape of a tensor [k, ...]."""
    drawn = torch.empty_like(like)
    for edge, place in enumerate(drawn.unbind(0)):
        place.copy_(noise(edge, *like.shape[1:]))
    return drawn
