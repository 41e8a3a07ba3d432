"""Online normalisation by running means and variances, which are buffers of the model."""

from typing import final

import torch
from torch import Tensor, nn


@final
class RunningNorm(nn.Module):
    """Subtracts running means from numbers [B, size] and divides by running standard deviations.

    A batch is normalised by the statistics before it, in training and prediction alike; in training it then updates
    them. Before the first batch all outputs are 0, since no scale is known.

    memory: examples after which older batches fade. limit: largest absolute output, in standard deviations.
    missing: whether numbers may be missing, which is NaN: they become 0, the mean, and move no statistics.
    """

    mean: Tensor
    variance: Tensor
    seen: Tensor

    def __init__(self, size: int, *, memory: float = 20_000, limit: float = 5.0, missing: bool = False) -> None:
        super().__init__()
        self.memory, self.limit, self.missing = memory, limit, missing
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.zeros(size))
        self.register_buffer("seen", torch.zeros(size if missing else 1))  # of each column, if they differ

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalised numbers, [B, size]."""
        # A column that varies by less than its rounding counts as constant.
        varies = self.variance > 1e-10 * self.mean * self.mean
        scale = torch.where(varies, self.variance.clamp(min=1e-12).rsqrt(), 0)
        normal = ((values - self.mean) * scale).clamp(-self.limit, self.limit)
        if self.missing:
            normal = torch.where(values.isnan(), 0, normal)
        if self.training:
            self._update(values.detach())
        return normal

    def _update(self, values: Tensor) -> None:
        # The batch update of Chan, Golub and LeVeque, with a bounded weight of the past.
        past = self.seen.clamp(max=self.memory)
        new: int | Tensor
        if self.missing:
            there = ~values.isnan()
            new = there.sum(-2).to(values.dtype)
            share = new / (past + new).clamp(min=1)
            mean = torch.where(there, values, 0).sum(-2) / new.clamp(min=1)
            variance = torch.where(there, values - mean.unsqueeze(-2), 0).square().sum(-2) / new.clamp(min=1)
        else:
            new = values.shape[-2]
            share = new / (past + new)
            mean = values.mean(-2)
            variance = (values - mean.unsqueeze(-2)).square().mean(-2)  # what var(-2) gives, in a tenth of its time
        gap = mean - self.mean
        self.variance.copy_((1 - share) * self.variance + share * variance + share * (1 - share) * gap * gap)
        self.mean.copy_(self.mean + share * gap)
        self.seen.copy_(self.seen + new)
