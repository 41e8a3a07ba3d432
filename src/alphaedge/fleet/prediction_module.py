"""A snapshot as one module: from rows, codes and numbers to predictions. It needs nothing of AlphaEdge to run."""

import copy
import math
from collections.abc import Mapping
from typing import Final, final

import torch
from torch import Tensor, nn

from alphaedge.core.home import combine
from alphaedge.core.labels import LABELS, LEVEL
from alphaedge.fleet.snapshot import Snapshot

OWN_BUFFERS: Final = frozenset({LABELS, LEVEL})  # that the core keeps of a model, not its module


@final
class PredictionModule(nn.Module):
    """Takes the fields in the model's order, ids and categories as rows of their tables; returns predictions [B]."""

    share: Tensor

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        model = snapshot.model
        self._model, self._dtype, self._link, self._tallies = model, model.dtype, model.loss.link, list[int]()
        self.models = nn.ModuleList([_filled(model.module, part.tensors) for part in snapshot.parts.values()])
        for field, t in model.tallies:
            for number, part in enumerate(snapshot.parts.values()):
                self.register_buffer(f"told_{number}_{field}", part.told[model.tables[t].name])
            self._tallies.append(field)
        for number, part in enumerate(snapshot.parts.values()):
            for name in OWN_BUFFERS & part.tensors.keys():
                self.register_buffer(f"{_plain(name)}_{number}", part.tensors[name])
        self.register_buffer("share", torch.tensor([snapshot.share], dtype=model.dtype))
        self._own = sorted(OWN_BUFFERS & model.initial_buffers().keys())
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return one prediction per example, [B]: a probability, or a number in the unit of the label."""
        given = [x.to(self._dtype) if x.is_floating_point() else x for x in inputs]
        outputs = []
        for number, module in enumerate(self.models):
            told = [self.get_buffer(f"told_{number}_{field}")[given[field]] for field in self._tallies]
            known = {name: self.get_buffer(f"{_plain(name)}_{number}") for name in self._own}
            outputs.append(self._model.placed(module(*given, *told).reshape(-1), known, given).unsqueeze(0))
        blend = combine(self.share, *outputs) if len(outputs) > 1 else outputs[0]
        return self._link(blend)[0]


def _plain(name: str) -> str:
    """The name of a buffer; dots are for parts of a module."""
    return name.replace(".", "_")


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
