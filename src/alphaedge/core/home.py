"""The home model: a twin that never mixes, and the judge that says which of the two predicts.

A mix that lowers the loss of one batch can still slow learning down over the stream. An edge that keeps a
never-mixed twin beside the mixed model, trained on the same batches, can fall back to it. The judge follows the two
models' losses on arriving batches, discounted by ``memory``, and gives the mixed model the share

    p = sigmoid( trust + temperature * G ),       G <- memory G + 2 (l_home - l_mixed) / (l_home + l_mixed)

with the two losses l of the batch (exponential weights, Freund and Schapire 1997, on relative losses: neither the unit
of the labels nor one stormy batch decides). With ``blend`` the prediction is the mean of the two outputs with
that share; without, the model with the larger share predicts alone.
"""

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.errors import check_number

# The lead that a model without a finite loss gives the other: larger than any memory forgets.
BROKEN: Final = 1e30
SMALLEST_LOSS: Final = 1e-12


@final
@dataclass(frozen=True)
class Home:
    """Settings of the judge.

    ``memory`` is per batch, so 0.98 looks back over about 50 batches. ``trust`` is what the mixed model is given
    beforehand, as log odds: a guard should not cost anything where there is nothing to guard against.
    """

    memory: float = 0.98
    temperature: float = 2.0
    trust: float = 2.0
    blend: bool = True

    def __post_init__(self) -> None:
        check_number("memory", self.memory, low=0, high=1)
        check_number("temperature", self.temperature, above=0)
        check_number("trust", self.trust)

    def share(self, lead: Tensor) -> Tensor:
        """The mixed model's share in the prediction, from its discounted lead G."""
        share = torch.sigmoid(self.trust + self.temperature * lead)
        return share if self.blend else (share >= 0.5).to(share.dtype)

    def update(self, lead: Tensor, mixed: Tensor, home: Tensor) -> Tensor:
        """The lead after a batch on which the two models had these losses; a model that breaks down loses for good."""
        size = (home.abs() + mixed.abs()).clamp(min=SMALLEST_LOSS)
        gap = torch.where(home.isfinite(), 2 * (home - mixed) / size, BROKEN).masked_fill(~mixed.isfinite(), -BROKEN)
        return self.memory * lead + gap


def combine(share: Tensor, mixed: Tensor, home: Tensor) -> Tensor:
    """Outputs [k, B] of the pair, with the mixed model's share [k]; what is no number has no share."""
    share = share.unsqueeze(1)
    both = torch.where(share < 1, share * mixed + (1 - share) * home, mixed)
    return torch.where(home.isfinite(), torch.where(mixed.isfinite() & (share > 0), both, home), mixed)
