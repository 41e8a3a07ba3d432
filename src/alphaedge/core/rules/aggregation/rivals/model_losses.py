"""What each model loses on an edge's own batches: the evidence of rules that judge peers one by one."""

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing, take_part


def model_losses(mixing: Mixing) -> Tensor:
    """The mean loss of each model as it is on the revealed batches, [g, 1 + P], own first.

    Infinite where a model takes no part or its loss is not finite. A row that a peer has not trained is the edge's own.
    """
    losses = mixing.losses(1.0)
    counts = take_part(mixing.present) & torch.isfinite(losses)
    return (losses / len(mixing.batches)).masked_fill(~counts, torch.inf)
