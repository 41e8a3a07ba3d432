"""The home model: a second model that is never mixed, and the blend of the two that predicts.

A mix that lowers the loss of one batch can still slow learning down over the stream. An edge that keeps a home model
beside the mixed model, trained on the same batches, can fall back to it. The edge predicts by

    out = s mixed + (1 - s) home

with a share s that it learns on the loss of that blend, not by comparing the two models' losses: two models that are
equally good but err on different examples are better together. As a function of s, the loss of a batch is close to the
parabola a s^2 + b s + l_0 through its values at 0, 1/2 and 1 (for squared error it is that parabola):

    a = 2 (l_0 - 2 l_1/2 + l_1),        b = 4 l_1/2 - 3 l_0 - l_1

The share is the one that would have been best so far, with the past discounted by ``memory``,

    A <- memory A + a,   B <- memory B + b,   n <- memory n + 1,        s = clip( (2 c s_0 - B) / (2 (A + c)), 0, 1 )

where c holds on to the first share s_0 like ``prior`` batches of average curvature that came before all others would,
``prior`` memory^t A / n after t batches. Neither the scale of the labels nor the size of the two models matters. With
squared error and ``memory`` 1 this is follow the regularised leader on quadratic losses, whose regret against the best
fixed share grows with the logarithm of the stream (Hazan, Agarwal, Kale, Machine Learning 69, 2007). For other losses
and with a discount, nothing is proven.
"""

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.errors import check_number

# The curvature of a batch on which one of the models is not finite: more than any memory forgets.
BROKEN: Final = 1e30
SMALLEST_LOSS: Final = 1e-12
SMALLEST_CURVATURE: Final = 1e-5  # of the losses: what is less may be rounding
UNUSED_SHARE: Final = 0.05  # a mixed model with a smaller share in the predictions is of no use


@final
@dataclass(frozen=True)
class Home:
    """Settings of the blend.

    memory: the discount per batch; 0.98 looks back over about 50 batches.
    start: s_0, the mixed model's share before anything is known. prior: how many batches it counts for.
    reset_after: after so many batches in a row with a share below ``UNUSED_SHARE`` the mixed model starts anew from the
        home model; 0 is never. What a hostile peer has done to it would stay otherwise.
    """

    memory: float = 0.98
    start: float = 0.75
    prior: float = 4.0
    reset_after: int = 0

    def __post_init__(self) -> None:
        check_number("memory", self.memory, low=0, high=1)
        check_number("start", self.start, low=0, high=1)
        check_number("prior", self.prior, above=0)
        check_number("reset_after", self.reset_after, low=0, whole=True)

    def share(self, evidence: Tensor) -> Tensor:
        """The mixed model's share in the prediction, from the evidence (A, B, n) so far, [..., 3]."""
        curvature, slope, batches = evidence.unbind(-1)
        first = self.prior * (1 - (1 - self.memory) * batches)  # n = (1 - memory^t) / (1 - memory)
        hold = first.clamp(min=0) * curvature / batches.clamp(min=1)
        share = (2 * hold * self.start - slope) / (2 * (curvature + hold))
        return torch.where(curvature > 0, share, self.start).clamp(0, 1)

    def update(self, evidence: Tensor, parabola: Tensor) -> Tensor:
        """The evidence after one more batch with this parabola (a, b), [..., 2]."""
        tells = (parabola[..., :1] > 0).to(parabola.dtype)
        return self.memory * evidence + torch.cat([parabola, tells], dim=-1)

    def unused(self, batches: Tensor, share: Tensor) -> Tensor:
        """For how many batches in a row the mixed model has been of no use, after one more.

        share: the mixed model's, after that batch.
        """
        return torch.where(share < UNUSED_SHARE, batches + 1, 0)

    def is_lost(self, batches: Tensor) -> Tensor:
        """Whether a mixed model that was of no use for so many batches is to start anew from the home model."""
        return (batches >= self.reset_after) & (self.reset_after > 0)


def no_evidence(edges: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """The evidence (A, B, n) before any batch, [edges, 3]."""
    return torch.zeros(edges, 3, dtype=dtype, device=device)


def parabola(home: Tensor, half: Tensor, mixed: Tensor) -> Tensor:
    """The loss of the blend as a function of the share: (a, b), [..., 2], from the losses at 0, 1/2 and 1.

    Of two models that differ by little more than rounding the losses tell nothing: (0, 0). A model whose loss is not
    finite gets no share, and never again.
    """
    curvature = 2 * (home - 2 * half + mixed)
    found = torch.stack([curvature, 4 * half - 3 * home - mixed], dim=-1)
    tells = curvature > SMALLEST_CURVATURE * (home.abs() + mixed.abs())
    found = torch.where(tells.unsqueeze(-1), found, 0.0)
    found = torch.where(mixed.isfinite().unsqueeze(-1), found, found.new_tensor([BROKEN, 0.0]))
    return torch.where(home.isfinite().unsqueeze(-1), found, found.new_tensor([BROKEN, -2 * BROKEN]))


def combine(share: Tensor | float, mixed: Tensor, home: Tensor) -> Tensor:
    """Blended outputs [k, B], by the mixed model's share [k]; an output that is not finite has no share."""
    share = share.unsqueeze(1) if isinstance(share, Tensor) else mixed.new_tensor(share)
    both = torch.where(share < 1, share * mixed + (1 - share) * home, mixed)
    return torch.where(home.isfinite(), torch.where(mixed.isfinite() & (share > 0), both, home), mixed)
