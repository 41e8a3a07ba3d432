"""FedFomo: a peer weighs by how much lower its loss is, over how far away its model is.

    a_ij = max(0, L_i(M_i) - L_i(M_j)) / ||M_j - M_i||

normalised over the peers: to first order, the step along M_j - M_i that lowers the edge's loss most.

Michael Zhang, Karan Sapra, Sanja Fidler, Serena Yeung, Jose M. Alvarez, *Personalized federated learning with first
order model optimization*, ICLR 2021. There the losses are compared with that of the model before local training, so
that the edge's own new model is one of the candidates. An edge here keeps no earlier model; ``own`` is the share that
its own model has in the place of that.
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
class FedFomo:
    """Weights by loss drop over distance; where no peer's model is better, the edge's own model stays.

    own: share of the edge's own model where some peer's is better; 0 leaves nothing of it.
    weight_batches: revealed batches that the models are scored on. Distances are those of the dense parts and of the
        rows that these batches name.
    """

    uses_peers: ClassVar[bool] = True
    memory: ClassVar[PeerMemory] = PeerMemory(fade=0.0)

    own: float = 0.5
    weight_batches: int = 2

    def __post_init__(self) -> None:
        check_number("own", self.own, low=0, below=1)
        check_number("weight_batches", self.weight_batches, low=1, whole=True)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """Loss drop over distance, normalised; a peer that is absent keeps its weight."""
        intact = among_intact(mixing)
        losses = model_losses(intact)
        drop = (losses[:, :1] - losses[:, 1:]).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0)
        gain = torch.where(drop > 0, drop / _distances(intact).clamp(min=torch.finfo(drop.dtype).tiny), 0)
        total = gain.sum(1, keepdim=True)
        better = total > 0
        theirs = (1 - self.own) * gain / torch.where(better, total, 1)
        raw = torch.cat([torch.where(better, self.own, 1.0).to(theirs.dtype), theirs], dim=1)
        return Weights(torch.where(take_part(mixing.present), raw, weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        among_intact(mixing).weighted_mean(shares)


def _distances(mixing: Mixing) -> Tensor:
    """||M_j - M_i|| as far as the batches see it, [g, P], the mean over batches."""
    each = [torch.stack([x.square().sum(2) for x in objective.differences]) for objective in mixing.objectives]
    return torch.stack([squares.sum(0).sqrt() for squares in each]).mean(0)
