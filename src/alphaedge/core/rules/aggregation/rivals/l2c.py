"""L2C, learning to collaborate: weights over everybody, a softmax that descends the loss of the mixture.

    w_ij = exp(alpha_ij) / sum_k exp(alpha_ik)

    dL/dalpha_ij = w_ij < dL/dM_agg , M_j - M_agg >

Shuangtong Li, Tianyi Zhou, Xinmei Tian, Dacheng Tao, *Learning to collaborate in decentralized learning of personalized
models*, CVPR 2022. There the weights mix updates, and are learned on a validation set; here they mix models, and are
learned on revealed batches that the model has not trained on.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, PeerMemory, Weights, mixture, take_part
from alphaedge.core.rules.aggregation.learned import weight_gradient
from alphaedge.core.rules.aggregation.rivals.intact import among_intact
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class L2C:
    """Softmax weights learned by Adam. steps, rate: of Adam; weight_batches: each step takes the next one."""

    uses_peers: ClassVar[bool] = True
    memory: ClassVar[PeerMemory] = PeerMemory(numbers={"alpha": 0.0, "m": 0.0, "v": 0.0, "steps": 0.0})

    steps: int = 10
    rate: float = 0.1
    weight_batches: int = 5

    def __post_init__(self) -> None:
        check_number("steps", self.steps, low=1, whole=True)
        check_number("rate", self.rate, above=0)
        check_number("weight_batches", self.weight_batches, low=1, whole=True)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """Some steps on the loss of the mixture; a peer that is absent keeps its weight and numbers."""
        intact = among_intact(mixing)
        taking, objectives = take_part(intact.present), intact.objectives
        alpha, m, v, counts = (weights.numbers[name].clone() for name in ("alpha", "m", "v", "steps"))
        adam = Adam(self.rate)
        for step in range(self.steps):
            now, w = objectives[step % len(objectives)], _softmax(alpha, taking)
            mixed = [mixture(w, own, x) for own, x in zip(now.own, now.differences, strict=True)]
            gradient = w * weight_gradient(w, intact.present, now.differences, now.slope(mixed))
            adam.update(alpha, m, v, gradient.nan_to_num(nan=0.0), counts[:, 0] + step + 1)
        new = {"alpha": alpha, "m": m, "v": v, "steps": counts + self.steps}
        kept = {name: torch.where(taking, x, weights.numbers[name]) for name, x in new.items()}
        raw = torch.where(take_part(mixing.present), _softmax(kept["alpha"], taking), weights.raw)
        return Weights(raw, kept)

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        among_intact(mixing).weighted_mean(shares)


def _softmax(alpha: Tensor, taking: Tensor) -> Tensor:
    """Shares [g, 1 + P] of the models that take part."""
    return alpha.masked_fill(~taking, -torch.inf).softmax(1)
