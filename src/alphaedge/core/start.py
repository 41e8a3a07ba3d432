"""The model that a newcomer starts from: number by number the median of several peers' models.

Without data of its own an edge can't tell a good model from a bad one. Of three or more models the median stays within
the range of the honest ones as long as fewer than half of them are hostile (Yin et al. 2018, "Byzantine-robust
distributed learning").
"""

from typing import Final

import torch
from torch import Tensor

START_MODELS: Final = 5  # that a newcomer asks for


def median(values: Tensor, there: Tensor | None = None) -> Tensor:
    """The median over the first dimension of [m, ...]; of an even number the mean of the middle two.

    there: which values count, all by default. Where none does, the result is 0.

    >>> median(torch.tensor([[1.0], [900.0], [2.0], [5.0]]), torch.tensor([[True], [True], [True], [False]]))
    tensor([2.])
    """
    there = torch.ones_like(values, dtype=torch.bool) if there is None else there
    ordered = torch.where(there, values, torch.inf).sort(dim=0).values
    count = there.sum(dim=0, keepdim=True)
    middle = [ordered.gather(0, ((count + odd - 1) // 2).clamp(min=0)) for odd in (0, 1)]
    return torch.where(count > 0, (middle[0] + middle[1]) / 2, torch.zeros_like(middle[0])).squeeze(0)
