"""Ditto's proximal pull: the edge's own model, drawn towards the others' mean.

    M_i <- M_i - p (M_i - Mbar),     Mbar = sum_j r_j M_j / sum_j r_j over the peers, r the records learned from

the minimiser's step for L_i(M) + lambda/2 ||M - Mbar||^2, taken at once for all steps between two aggregations:
p = 1 - (1 - rate * lambda)^E.

Tian Li, Shengyuan Hu, Ahmad Beirami, Virginia Smith, *Ditto: Fair and robust federated learning through
personalization*, ICML 2021. There Mbar is a model of its own that a server trains besides.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights, take_part
from alphaedge.core.rules.aggregation.rivals.intact import among_intact
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Proximal:
    """A pull towards the peers' mean. pull: p, how far of the way at each aggregation."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    pull: float = 0.1

    def __post_init__(self) -> None:
        check_number("pull", self.pull, above=0, below=1)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """1 - p for the edge's own model, p for all peers together; a peer that is absent keeps its weight."""
        records = mixing.records[:, 1:] * among_intact(mixing).present
        theirs = self.pull * records / records.sum(1, keepdim=True).clamp(min=1)
        raw = torch.cat([torch.full_like(weights.raw[:, :1], 1 - self.pull), theirs.to(weights.raw.dtype)], dim=1)
        return Weights(torch.where(take_part(mixing.present), raw, weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        among_intact(mixing).weighted_mean(shares)
