"""The home model: a second model that is never mixed, and the judge that decides how much each of the two predicts.

A mix that lowers the loss of one batch can still slow learning down over the stream. An edge that keeps a home model
beside the mixed model, trained on the same batches, can fall back to it. The judge follows the two models' losses on
arriving batches, discounted by ``memory``, and gives the mixed model the share

    p = sigmoid( trust + temperature * G ),       G <- memory G + 2 (l_home - l_mixed) / (l_home + l_mixed)

with the two losses l of the batch (exponential weights, Freund and Schapire 1997, on relative losses, so that neither
the scale of the labels nor a single bad batch decides). With ``blend`` the prediction is the mean of the two outputs by
that share; without, the model with the larger share predicts alone.
"""

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.errors import check_number

# The lead that the other model gets over one whose loss is not finite: more than any memory forgets.
BROKEN: Final = 1e30
SMALLEST_LOSS: Final = 1e-12
UNUSED_SHARE: Final = 0.05  # a mixed model with a smaller share in the predictions is of no use


@final
@dataclass(frozen=True)
class Home:
    """Settings of the judge.

    memory: the discount per batch; 0.98 looks back over about 50 batches. temperature: how strongly a lead counts.
    trust: the mixed model's head start, as log odds, so that the home model costs nothing where mixing works.
    blend: whether the two outputs are averaged by their shares.
    reset_after: after so many batches in a row with a share below ``UNUSED_SHARE`` the mixed model starts anew from the
        home model; 0 is never. What a hostile peer has done to it would stay otherwise.
    """

    memory: float = 0.98
    temperature: float = 2.0
    trust: float = 2.0
    blend: bool = True
    reset_after: int = 0

    def __post_init__(self) -> None:
        check_number("memory", self.memory, low=0, high=1)
        check_number("temperature", self.temperature, above=0)
        check_number("trust", self.trust)
        check_number("reset_after", self.reset_after, low=0, whole=True)

    def share(self, lead: Tensor) -> Tensor:
        """The mixed model's share in the prediction, from its discounted lead G."""
        share = torch.sigmoid(self.trust + self.temperature * lead)
        return share if self.blend else (share >= 0.5).to(share.dtype)

    def unused(self, batches: Tensor, lead: Tensor) -> Tensor:
        """For how many batches in a row the mixed model has been of no use, after one more at this lead."""
        return torch.where(torch.sigmoid(self.trust + self.temperature * lead) < UNUSED_SHARE, batches + 1, 0)

    def is_lost(self, batches: Tensor) -> Tensor:
        """Whether a mixed model that was of no use for so many batches is to start anew from the home model."""
        return (batches >= self.reset_after) & (self.reset_after > 0)

    def update(self, lead: Tensor, mixed: Tensor, home: Tensor) -> Tensor:
        """The lead after a batch with these losses of the two models."""
        return self.memory * lead + self.gap(mixed, home)

    def gap(self, mixed: Tensor, home: Tensor) -> Tensor:
        """The relative gap of two losses; one that is not finite decides for good."""
        size = (home.abs() + mixed.abs()).clamp(min=SMALLEST_LOSS)
        gap = torch.where(home.isfinite(), 2 * (home - mixed) / size, BROKEN)
        return gap.masked_fill(~mixed.isfinite(), -BROKEN)


def combine(share: Tensor, mixed: Tensor, home: Tensor) -> Tensor:
    """Blended outputs [k, B], by the mixed model's share [k]; an output that is not finite has no share."""
    share = share.unsqueeze(1)
    both = torch.where(share < 1, share * mixed + (1 - share) * home, mixed)
    return torch.where(home.isfinite(), torch.where(mixed.isfinite() & (share > 0), both, home), mixed)
