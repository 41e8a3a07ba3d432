"""A module whose parameters are replaced by assignment before each call.

``functional_call`` looks up every parameter by name and checks for ties on each call, which takes longer than a small
model itself. Here the slots of all parameters are found once, and a call assigns tensors to them.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from alphaedge.core.model import Model

Slot = tuple[dict[str, Any], str]  # the dictionary of a module's parameters, and a name in it


def parameter_views(model: Model, dense: Tensor) -> list[Tensor]:
    """Views of a dense part [D] in the shapes of a model's parameters."""
    return [dense[s.start : s.stop].view(s.shape) for s in model.dense_layout]


@final
class BoundModule:
    """A copy of a model's module in evaluation mode."""

    def __init__(self, model: Model) -> None:
        self._model, self._module = model, copy.deepcopy(model.module).eval()
        slots: dict[int, list[Slot]] = {}  # a tied parameter has several
        for owner in self._module.modules():
            for name, parameter in owner._parameters.items():
                slots.setdefault(id(parameter), []).append((owner._parameters, name))
        parameters = dict(self._module.named_parameters())
        self._dense = [slots[id(parameters[s.name])] for s in model.dense_layout]
        self._columns = [[(c, slots[id(parameters[c.name])]) for c in table.slices] for table in model.tables]
        self._buffers = dict(self._module.named_buffers())
        # A module that keeps its parameters elsewhere as well, as recurrent ones do, would use stale values: make its
        # outputs NaN instead, which the caller notices.
        with torch.no_grad():
            for parameter in parameters.values():
                if parameter.requires_grad:
                    parameter.fill_(math.nan)

    def outputs(
        self, views: Sequence[Tensor], rows: Sequence[Tensor], buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Tensor:
        """Compute outputs [B]. views: the dense part, as ``parameter_views``. rows: for each id table [C, columns]."""
        for slots, value in zip(self._dense, views, strict=True):
            _assign(slots, value)
        for table, matrix in zip(self._columns, rows, strict=True):
            for column, slots in table:
                _assign(slots, matrix[:, column.start : column.stop].view(-1, *column.shape[1:]))
        for name, own in self._buffers.items():
            own.copy_(buffers[name])  # a copy, since the module may write to it
        if self._model.tallies:
            told = self._model.told([r.unsqueeze(0) for r in rows], [x.unsqueeze(0) for x in inputs])
            inputs = [x.squeeze(0) for x in told]
        outputs: Tensor = self._module(*inputs)
        return self._model.placed(outputs.reshape(-1), buffers, inputs)


def _assign(slots: Sequence[Slot], value: Tensor) -> None:
    for parameters, name in slots:
        parameters[name] = value
