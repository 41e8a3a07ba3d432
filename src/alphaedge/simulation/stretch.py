"""A stretch: the batches that edges predict and train on between two aggregations, all edges side by side."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.core.fleet import Fleet
from alphaedge.core.gradients import Gradients
from alphaedge.core.online import Online, learn, predict
from alphaedge.simulation.batches import Batches


@final
@dataclass(frozen=True)
class Stretch:
    """For k edges and S columns, the batch that each predicts and the batch it trains on, -1 for none.

    Columns run in order; in a column an edge predicts first.
    """

    edges: Tensor  # [k]
    predicted: Tensor  # [k, S]
    trained: Tensor  # [k, S]

    @classmethod
    def of(cls, plans: dict[int, tuple[list[int], list[int]]]) -> "Stretch":
        """From each edge's list of (predicted, trained) batches; shorter ones are filled up at the end."""
        width = max(len(p) for p, _ in plans.values())
        predicted = torch.tensor([p + [-1] * (width - len(p)) for p, _ in plans.values()])
        trained = torch.tensor([t + [-1] * (width - len(t)) for _, t in plans.values()])
        return cls(torch.tensor(list(plans)), predicted, trained)

    def split(self, block: int) -> list["Stretch"]:
        """Pieces of at most ``block`` edges: beyond some hundreds a stack falls out of the cache."""
        return [
            Stretch(self.edges[i : i + block], self.predicted[i : i + block], self.trained[i : i + block])
            for i in range(0, len(self.edges), block)
        ]


def run_stretch(
    fleet: Fleet, stretch: Stretch, batches: Batches, gradients: Gradients, online: Online, *, same_pass: bool
) -> Tensor:
    """Run a stretch in place and return the outputs [k, S, B] of predicted batches (NaN elsewhere).

    With ``same_pass`` a batch that is predicted and trained on in one column costs one forward pass; right only
    where the module's outputs do not depend on training mode.
    """
    part = fleet.part(stretch.edges)
    k, width = stretch.predicted.shape
    outputs: Tensor | None = None
    for s in range(width):
        p, t = stretch.predicted[:, s], stretch.trained[:, s]
        shared = (p == t) & (p >= 0) if same_pass else torch.zeros_like(p, dtype=torch.bool)
        for which, training in (((p >= 0) & ~shared, False), (t >= 0, True)):
            places = which.nonzero().flatten()
            if not len(places):
                continue
            everybody = len(places) == k
            some = part if everybody else part.part(places)
            batch = batches.get(stretch.edges[places], (t if training else p)[places])
            if training:
                found, _ = learn(some, batch, gradients, online)
                if not everybody:
                    part.put(places, some)
            else:
                found = predict(some, batch, gradients)
            if outputs is None:
                outputs = torch.full((k, width, found.shape[1]), torch.nan, dtype=found.dtype)
            if not training:
                outputs[places, s] = found
            elif bool(shared.any()):
                outputs[shared, s] = found[shared[places]]
    fleet.put(stretch.edges, part)
    assert outputs is not None
    return outputs
