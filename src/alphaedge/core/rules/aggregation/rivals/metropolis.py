"""D-PSGD's weights: fixed by the topology, after Metropolis and Hastings.

    w_ij = 1 / (1 + max(d_i, d_j)) for a neighbour j,        w_ii = 1 - sum_j w_ij

with d the number of neighbours. Where all have the same, as on a ring, that is the plain mean: 1/3 each.

Xiangru Lian, Ce Zhang, Huan Zhang, Cho-Jui Hsieh, Wei Zhang, Ji Liu, *Can decentralized algorithms outperform
centralized algorithms? A case study for decentralized parallel stochastic gradient descent*, NeurIPS 2017. ``Ring`` is
the topology that goes with it.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights
from alphaedge.core.rules.aggregation.rivals.intact import among_intact
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Metropolis:
    """Metropolis-Hastings weights where every edge has ``degree`` neighbours; an absent one's share stays at home."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    degree: int = 2

    def __post_init__(self) -> None:
        check_number("degree", self.degree, low=1, whole=True)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """The same for every neighbour, the rest for the edge's own model; 0 for a model that is not intact."""
        present = among_intact(mixing).present
        there = present.sum(1, keepdim=True)
        each = 1 / (1 + there.clamp(min=self.degree).to(weights.raw.dtype))
        theirs = torch.where(mixing.present & ~present, 0, each.expand(present.shape))
        return Weights(torch.cat([1 - there * each, theirs], dim=1))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        among_intact(mixing).weighted_mean(shares)
