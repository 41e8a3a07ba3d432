"""A module that reads its parameters where they are: for one prediction after the other, with nothing in between.

``functional_call`` looks every parameter up by name and checks for ties on each call, which takes longer than a small
model itself. Here the places of all parameters are found once, and a call puts tensors there.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from alphaedge.core.model import Model

Place = tuple[dict[str, Any], str]


def views(model: Model, dense: Tensor) -> list[Tensor]:
    """A dense part [D] in the shapes of a model's parameters."""
    return [dense[s.start : s.stop].view(s.shape) for s in model.dense_layout]


@final
class BoundModule:
    """A copy of a model's module in evaluation mode."""

    def __init__(self, model: Model) -> None:
        self._module = copy.deepcopy(model.module).eval()
        places: dict[int, list[Place]] = {}  # a tied parameter has several
        for owner in self._module.modules():
            for name, parameter in owner._parameters.items():
                places.setdefault(id(parameter), []).append((owner._parameters, name))
        named = dict(self._module.named_parameters())
        self._dense = [places[id(named[s.name])] for s in model.dense_layout]
        self._columns = [[(c, places[id(named[c.name])]) for c in table.columns] for table in model.tables]
        self._buffers = dict(self._module.named_buffers())
        # What a module has kept of its parameters elsewhere, as recurrent ones do, would be out of date: let it show.
        with torch.no_grad():
            for parameter in named.values():
                if parameter.requires_grad:
                    parameter.fill_(math.nan)

    def outputs(
        self, views: Sequence[Tensor], rows: Sequence[Tensor], buffers: Mapping[str, Tensor], inputs: Sequence[Tensor]
    ) -> Tensor:
        """Outputs [B]. views: a dense part in the shapes of the parameters; rows: per id table [C, width]."""
        for here, value in zip(self._dense, views, strict=True):
            _put(here, value)
        for table, matrix in zip(self._columns, rows, strict=True):
            for column, here in table:
                _put(here, matrix[:, column.start : column.stop].view(-1, *column.shape[1:]))
        for name, own in self._buffers.items():
            own.copy_(buffers[name])  # its own, should it write there
        outputs: Tensor = self._module(*inputs)
        return outputs.reshape(-1)


def _put(places: Sequence[Place], value: Tensor) -> None:
    for parameters, name in places:
        parameters[name] = value
