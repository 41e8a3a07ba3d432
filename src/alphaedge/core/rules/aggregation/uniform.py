"""The plain mean: a_ij = 1 for the edge's own model and for every neighbour."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights


@final
@dataclass(frozen=True)
class Uniform:
    """Every model weighs the same."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """1 for every model."""
        return Weights(torch.ones_like(weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        mixing.weighted_mean(shares)
