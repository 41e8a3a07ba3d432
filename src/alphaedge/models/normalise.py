"""Normalisation learned online: running means and variances that are part of the model."""

from typing import final

import torch
from torch import Tensor, nn


@final
class RunningNorm(nn.Module):
    """Numbers [B, size] less their running mean, over their running deviation, within ``limit`` deviations.

    A batch is normalised by what was known before it, in training and in prediction alike, and then counted in. Old
    batches fade once ``memory`` examples have been seen. Before the first batch everything is 0: there is no scale.
    """

    mean: Tensor
    variance: Tensor
    seen: Tensor

    def __init__(self, size: int, *, memory: float = 20_000, limit: float = 5.0) -> None:
        super().__init__()
        self.memory, self.limit = memory, limit
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.zeros(size))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, values: Tensor) -> Tensor:
        """The normalised numbers, [B, size]."""
        # A column that moves by less than its rounding does not move.
        moves = self.variance > 1e-10 * self.mean * self.mean
        scale = torch.where(moves, self.variance.clamp(min=1e-12).rsqrt(), 0)
        normal = ((values - self.mean) * scale).clamp(-self.limit, self.limit)
        if self.training:
            self._count(values.detach())
        return normal

    def _count(self, values: Tensor) -> None:
        # Chan, Golub and LeVeque's update of mean and variance by a batch, with a bounded weight of the past.
        new = values.shape[-2]
        past = self.seen.clamp(max=self.memory)
        share = new / (past + new)
        mean, variance = values.mean(-2), values.var(-2, correction=0)
        gap = mean - self.mean
        self.variance.copy_((1 - share) * self.variance + share * variance + share * (1 - share) * gap * gap)
        self.mean.copy_(self.mean + share * gap)
        self.seen.copy_(self.seen + new)
