"""No aggregation: every edge keeps its own model."""

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights


@final
@dataclass(frozen=True)
class Alone:
    """No aggregation: nothing is pulled or selected."""

    uses_peers: ClassVar[bool] = False
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """The weights as they are."""
        return weights

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """Leave the edge's own model as it is."""
