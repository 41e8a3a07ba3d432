"""Models of one number on a line: what a rule makes of them can be computed by hand."""

import torch
from torch import nn

from alphaedge.core.aggregation import Aggregation, HeldModels, Mixing, Weights, shares_of
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.model import Model
from alphaedge.core.model_check import as_batch
from alphaedge.core.state import ModelState

from ....mixes import fresh


def line(own: float, *peers: float, label: float = 2.0, present: list[bool] | None = None) -> Mixing:
    """One edge with the model y = own * x, and peers with others; its batch is x = 1 with a label, the loss squared."""
    model = Model(nn.Linear(1, 1, bias=False).double(), fields=["x"], loss="mse")
    models = ModelState.start([model], [0])
    models.dense[:] = own
    count = len(peers)
    held = HeldModels(
        torch.tensor(peers, dtype=torch.float64).view(-1, 1),
        (),
        (),
        {},
        torch.arange(count).view(1, -1),
        torch.tensor([[True] * count if present is None else present]),
    )
    batch = as_batch(model, [torch.ones(4, 1, dtype=torch.float64)], torch.full((4,), label))
    records = torch.ones(1, 1 + count, dtype=torch.float64)
    return Mixing(models, held, records, [batch], OneAtATime(model), [])


def mixed(rule: Aggregation, mixing: Mixing, weights: Weights | None = None) -> tuple[float, list[float]]:
    """The edge's number after a round, and its raw weights, own first."""
    with torch.inference_mode():  # as in a run
        after = rule.weigh(mixing, weights or fresh(rule, torch.ones_like(mixing.records)))
        rule.mix(mixing, shares_of(after.raw, mixing.present))
    return float(mixing.models.dense[0, 0]), after.raw[0].tolist()
