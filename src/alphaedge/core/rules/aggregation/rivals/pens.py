"""PENS: the models of those peers that lose least on the edge's own data.

    a_ij = 1 for the m peers j with the smallest L_i(M_j), and for j = i; else 0

Noa Onoszko, Gustav Karlsson, Olof Mogren, Edvin Listo Zec, *Decentralized federated learning of deep neural networks on
non-iid data*, 2021, ICML workshop on federated learning for user privacy and data confidentiality. ``BestSoFar`` is the
selection that goes with it.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights, take_part
from alphaedge.core.rules.aggregation.rivals.intact import among_intact
from alphaedge.core.rules.aggregation.rivals.model_losses import model_losses
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Pens:
    """The plain mean of the edge's own model and of the ``kept`` peers whose models lose least on its batches.

    weight_batches: revealed batches that the models are scored on.
    """

    uses_peers: ClassVar[bool] = True
    memory: ClassVar[PeerMemory] = PeerMemory(fade=0.0)

    kept: int = 2
    weight_batches: int = 2

    def __post_init__(self) -> None:
        check_number("kept", self.kept, low=1, whole=True)
        check_number("weight_batches", self.weight_batches, low=1, whole=True)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """1 for the edge's own model and the best peers, 0 for the others; a peer that is absent keeps its weight."""
        losses = model_losses(among_intact(mixing))[:, 1:]
        place = losses.argsort(dim=1, stable=True).argsort(1)
        best = (place < self.kept) & torch.isfinite(losses)
        raw = torch.cat([torch.ones_like(weights.raw[:, :1]), best.to(weights.raw.dtype)], dim=1)
        return Weights(torch.where(take_part(mixing.present), raw, weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        among_intact(mixing).weighted_mean(shares)
