"""A snapshot as one module: from rows, codes and numbers to predictions. It needs nothing of AlphaEdge to run."""

import copy
import math
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from alphaedge.core.home import combine
from alphaedge.fleet.snapshot import Snapshot


@final
class PredictionModule(nn.Module):
    """Takes the fields in the model's order, ids and categories as rows of their tables; returns predictions [B]."""

    share: Tensor

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        model = snapshot.model
        self._dtype, self._link, self._tallies = model.dtype, model.loss.link, []
        self.models = nn.ModuleList([_filled(model.module, part.tensors) for part in snapshot.parts.values()])
        for field, t in model.tallies:
            for number, part in enumerate(snapshot.parts.values()):
                self.register_buffer(f"told_{number}_{field}", part.told[model.tables[t].name])
            self._tallies.append(field)
        self.register_buffer("share", torch.tensor([snapshot.share], dtype=model.dtype))
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return one prediction per example, [B]: a probability, or a number in the unit of the label."""
        given = [x.to(self._dtype) if x.is_floating_point() else x for x in inputs]
        outputs = []
        for number, module in enumerate(self.models):
            told = [self.get_buffer(f"told_{number}_{field}")[given[field]] for field in self._tallies]
            outputs.append(module(*given, *told).reshape(1, -1))
        blend = combine(self.share, *outputs) if len(outputs) > 1 else outputs[0]
        return self._link(blend)[0]


def _filled(module: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A copy of a module with other parameters and buffers; those of id tables may have more or fewer rows."""
    made = copy.deepcopy(module)
    names = {id(parameter): name for name, parameter in made.named_parameters()}  # a tied parameter has one
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(math.nan)  # a module that keeps a parameter elsewhere as well would use stale values
    for owner in list(made.modules()):
        for name, parameter in list(owner.named_parameters(recurse=False, remove_duplicate=False)):
            setattr(owner, name, nn.Parameter(tensors[names[id(parameter)]], requires_grad=False))
    for name, buffer in made.named_buffers():
        buffer.copy_(tensors[name])
    return made
