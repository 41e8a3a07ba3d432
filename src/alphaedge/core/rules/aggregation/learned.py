"""The paper's aggregation rule: weights learned by gradient descent.

All models are frozen; only the K + 1 numbers a are active. They descend the loss of M_agg on revealed batches for a
few Adam steps, starting from where the last aggregation left them (paper, section III-B). By the chain rule, with
A = a_ii + sum_j a_ij,

    dL/da_ij = < dL/dM_agg , M_j - M_agg > / A

so one gradient of the mixture gives all K + 1, and no copy of a model enters autograd.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.aggregation import (
    MAX_RECORDS_RATIO,
    Mixing,
    PeerMemory,
    Weights,
    mixture,
    normalise,
    take_part,
)
from alphaedge.core.objective import Objective
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Learned:
    """Weights learned by gradient descent. The paper's reading is ``Learned.paper()``; see docs/decisions.

    steps: gradient steps per aggregation.
    rate: Adam's rate for the weights. The paper's 0.001 moves a weight by at most 0.01 per aggregation.
    start: raw weight of the edge's own model and of each first neighbour (only their ratio to ``rate`` matters).
    newcomer, remember, fade: what a newcomer starts with and what is kept of former neighbours (``PeerMemory``). The
        paper remembers only a neighbour that was down.
    weight_batches: revealed batches that the weights are learned on; each step takes the next one.
    prior: how far weights move, before they are learned, towards what the models have learned from.
    """

    uses_peers: ClassVar[bool] = True

    steps: int = 4
    rate: float = 0.2
    start: float = 1.0
    newcomer: float = 0.5
    remember: bool = True
    fade: float = 0.01
    weight_batches: int = 4
    prior: float = 0.5

    def __post_init__(self) -> None:
        check_number("steps", self.steps, low=1, whole=True)
        check_number("weight rate", self.rate, above=0)
        check_number("weight_batches", self.weight_batches, low=1, whole=True)
        check_number("prior", self.prior, low=0, high=1)
        _ = self.memory  # checks the rest

    @classmethod
    def paper(cls) -> "Learned":
        """The literal reading: 10 steps at 0.001 on one batch, newcomers at 0, nothing kept of a replaced peer."""
        return cls(steps=10, rate=0.001, newcomer=0.0, remember=False, weight_batches=1, prior=0.0)

    @cached_property
    def memory(self) -> PeerMemory:
        """Adam's two moments and step count for each weight."""
        numbers = {"m": 0.0, "v": 0.0, "steps": 0.0}
        return PeerMemory(numbers, self.start, self.newcomer, self.remember, self.fade)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """Start from the last weights, drawn towards ``prior``, and descend the loss of the mixture."""
        raw = towards_records(weights.raw, mixing.present, mixing.records, self.prior)
        return learn_weights(Weights(raw, weights.numbers), mixing.present, mixing.objectives, self)

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        mixing.weighted_mean(shares)


def towards_records(raw: Tensor, present: Tensor, records: Tensor, prior: float) -> Tensor:
    """Weights [g, 1 + P] moved by the share ``prior`` of the way to what each model has learned from.

    Two models that nothing is known about yet are worth what they have seen. The sum stays the same, and no model
    counts for more than ``MAX_RECORDS_RATIO`` times the edge's own records, whatever it claims.
    """
    taking, own = take_part(present), records[:, :1].clamp(min=1)
    amount = torch.cat([own, records[:, 1:].minimum(own * MAX_RECORDS_RATIO)], dim=1) * taking
    scale = (raw * taking).sum(1, keepdim=True) / amount.sum(1, keepdim=True)
    return torch.where(taking, torch.lerp(raw, amount * scale, prior), raw)


def weight_gradient(raw: Tensor, present: Tensor, differences: Sequence[Tensor], slope: Sequence[Tensor]) -> Tensor:
    """dL/da [g, 1 + P] from dL/dM_agg and X, both in parts: [g, F] and [g, P, F] (zero where a peer is absent)."""
    taking = take_part(present)
    return _gradient(*normalise(raw * taking), differences, slope) * taking


def _gradient(w: Tensor, total: Tensor, differences: Sequence[Tensor], slope: Sequence[Tensor]) -> Tensor:
    # < dL/dM_agg, M_j - M_i >, which is 0 for the edge's own model. In this order of factors bmm is 14 times faster.
    along = sum(
        torch.bmm(s.unsqueeze(1), x.transpose(1, 2)).squeeze(1) for x, s in zip(differences, slope, strict=True)
    )
    assert isinstance(along, Tensor)
    along = F.pad(along, (1, 0))
    return (along - (w * along).sum(1, keepdim=True)) / total


def learn_weights(weights: Weights, present: Tensor, objectives: Sequence[Objective], rule: Learned) -> Weights:
    """A few gradient steps on the weights alone, one after the other on each of the batches.

    A peer that is not present keeps its weight and its Adam state for its return.
    """
    taking = take_part(present)
    adam, moves = Adam(rate=rule.rate), taking.to(weights.raw.dtype)
    raw, m, v = weights.raw, weights.numbers["m"].clone(), weights.numbers["v"].clone()
    # Adam's bias corrections of all steps at once; a weight that takes no part keeps its count.
    steps = torch.arange(1, rule.steps + 1, dtype=moves.dtype, device=moves.device)
    counts = weights.numbers["steps"] + moves * steps.view(-1, 1, 1)
    ahead = adam.rate * moves / (1 - adam.beta1**counts).clamp(min=1e-30)
    spread = (1 - adam.beta2**counts).clamp(min=1e-30).rsqrt()
    toward_m, toward_v = (1 - adam.beta1) * moves, (1 - adam.beta2) * moves
    for step in range(rule.steps):
        now = objectives[step % len(objectives)]
        w, total = normalise(raw * taking)
        mixed = [mixture(w, mine, x) for mine, x in zip(now.own, now.differences, strict=True)]
        gradient = _gradient(w, total, now.differences, now.slope(mixed))
        m.lerp_(gradient, toward_m)
        v.lerp_(gradient * gradient, toward_v)
        raw = (raw - ahead[step] * m / (v.sqrt() * spread[step] + adam.eps)).clamp_(min=0)
    return Weights(raw, {"m": m, "v": v, "steps": counts[-1]})
