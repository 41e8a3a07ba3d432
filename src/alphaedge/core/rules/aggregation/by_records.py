"""FedAvg's aggregation rule (McMahan et al., 2017): a_ij = the records that model j has learned from."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights, take_part


@final
@dataclass(frozen=True)
class ByRecords:
    """Each model weighs as many records as it had learned from when it was published."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """The records that each model claims; a peer that is absent keeps its weight."""
        return Weights(torch.where(take_part(mixing.present), mixing.records, weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        mixing.weighted_mean(shares)
