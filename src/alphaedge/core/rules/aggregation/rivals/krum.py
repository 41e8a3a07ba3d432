"""Krum and multi-Krum: the models that have the most company.

    s(j) = sum of ||M_j - M_k||^2 over the n - f - 2 models k that are closest to j

of n models, f of them hostile. Krum takes the model with the smallest s, multi-Krum the mean of the m smallest.

Peva Blanchard, El Mahdi El Mhamdi, Rachid Guerraoui, Julien Stainer, *Machine learning with adversaries: Byzantine
tolerant gradient descent*, NeurIPS 2017. There a server chooses among gradients; here an edge chooses among models, its
own included.
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
class Krum:
    """The plain mean of the models with the most company.

    hostile: share of the n models that is taken to be hostile, f = floor(hostile n).
    kept: m, how many models are averaged; 1 is Krum, None is n - f.
    Distances are those of the dense parts and of the rows that the revealed batches name.
    """

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    hostile: float = 0.25
    kept: int | None = None

    def __post_init__(self) -> None:
        check_number("hostile", self.hostile, low=0, below=0.5)
        if self.kept is not None:
            check_number("kept", self.kept, low=1, whole=True)

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        """1 for the models with the smallest scores, 0 for the others; a peer that is absent keeps its weight."""
        intact = among_intact(mixing)
        taking = take_part(intact.present)
        count = taking.sum(1, keepdim=True)
        hostile = (count * self.hostile + 1e-6).floor()
        scores = krum_scores(_squares(intact), taking, (count - hostile - 2).clamp(min=1))
        place = scores.argsort(dim=1, stable=True).argsort(1)  # of equal scores the edge's own comes first
        best = (place < (count - hostile if self.kept is None else self.kept)) & taking
        return Weights(torch.where(take_part(mixing.present), best.to(weights.raw.dtype), weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        """The weighted mean."""
        among_intact(mixing).weighted_mean(shares)


def krum_scores(squares: Tensor, taking: Tensor, company: Tensor) -> Tensor:
    """The scores s [g, 1 + P] from squared distances [g, 1 + P, 1 + P]; infinite where a model takes no part.

    company: [g, 1], how many of the closest others count.
    """
    place = torch.arange(squares.shape[1], device=squares.device)
    itself = place.unsqueeze(1) == place
    apart = squares.masked_fill(~taking.unsqueeze(1) | itself, torch.inf)
    nearest = apart.sort(2).values
    # With few models there may be fewer others than wanted: those that are there count.
    counts = (place < company.unsqueeze(2)) & torch.isfinite(nearest)
    return nearest.masked_fill(~counts, 0).sum(2).masked_fill(~taking, torch.inf)


def _squares(mixing: Mixing) -> Tensor:
    """||M_j - M_k||^2 as far as the batches see it, [g, 1 + P, 1 + P]."""
    squares = mixing.models.dense.new_zeros(*mixing.records.shape, mixing.records.shape[1])
    for objective in mixing.objectives:
        for x in objective.differences:
            from_own = torch.cat([torch.zeros_like(x[:, :1]), x], dim=1)
            squares += torch.cdist(from_own, from_own, compute_mode="donot_use_mm_for_euclid_dist").square()
    return squares.nan_to_num(nan=torch.inf)
