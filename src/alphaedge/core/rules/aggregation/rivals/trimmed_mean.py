"""Robust means, coordinate by coordinate: the trimmed mean and the median.

    M_k = mean of the numbers that are left at coordinate k, without the b largest and the b smallest of n

with b = floor(trim n) for the trimmed mean; the median leaves one number, or the two in the middle.

Dong Yin, Yudong Chen, Kannan Ramchandran, Peter Bartlett, *Byzantine-robust distributed learning: towards optimal
statistical rates*, ICML 2018. There a server combines gradients; here an edge combines its own model and its peers'.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class TrimmedMean:
    """The mean of each number without its extremes. trim: the share left out at either end; 0.5 is the median."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    trim: float = 0.25

    def __post_init__(self) -> None:
        check_number("trim", self.trim, low=0, high=0.5)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """1 for every model: which of its numbers count is decided one by one."""
        return Weights(torch.ones_like(weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The trimmed mean of each number; one that is not finite takes no part."""
        mixing.coordinatewise(lambda values: trimmed_mean(values, self.trim))


def trimmed_mean(values: Tensor, trim: float) -> Tensor:
    """[g, F] from [g, 1 + P, F]: without the floor(trim n) largest and smallest of the n finite ones, at least 1 left.

    NaN where there is none.
    """
    there = torch.isfinite(values)
    count = there.sum(1, keepdim=True)
    order = values.masked_fill(~there, torch.inf).sort(1).values
    # 1e-6: so that 0.2 of 5 is 1, however it is rounded.
    cut = (count * trim + 1e-6).floor().minimum(((count - 1) / 2).floor()).clamp(min=0)
    place = torch.arange(values.shape[1], device=values.device).view(1, -1, 1)
    left = (place >= cut) & (place < count - cut)
    return order.masked_fill(~left, 0).sum(1) / left.sum(1)
