"""Multilayer perceptrons over the fields of a batch."""

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import WHOLE, Field
from alphaedge.core.model import Model
from alphaedge.errors import InvalidValue
from alphaedge.models.running_norm import RunningNorm


def make_layers(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    """Stack linear layers with ReLUs between them, down to one output."""
    widths = [inputs, *hidden]
    stack: list[nn.Module] = []
    for a, b in pairwise(widths):
        stack += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(widths[-1], 1))


@final
class MLP(nn.Module):
    """An MLP over the fields side by side. Ids, categories and codes enter as one-hot vectors.

    label_scale: factor of the output, about the size of the labels.
    normalise: whether numbers pass through a ``RunningNorm`` first.

    >>> MLP([Field("x", "number", 3)])(torch.zeros(2, 3)).shape
    torch.Size([2])
    """

    def __init__(
        self,
        fields: Sequence[Field],
        hidden: Sequence[int] = (64, 32),
        *,
        label_scale: float = 1.0,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        self.label_scale = label_scale
        self.kinds = tuple((f.kind, f.size) for f in fields)
        numbers = [i for i, f in enumerate(fields) if f.kind == "number"]
        if not normalise and any(f.missing for f in fields):
            raise InvalidValue("normalise", False, "True: numbers that may be missing are put to their running mean")
        self.norms = nn.ModuleDict(
            {str(i): RunningNorm(fields[i].size, missing=fields[i].missing) for i in numbers if normalise}
        )
        self.layers = make_layers(sum(f.size for f in fields), hidden)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return one output per example, [B]."""
        dtype = next(self.parameters()).dtype
        parts = []
        for i, ((kind, size), x) in enumerate(zip(self.kinds, inputs, strict=True)):
            if kind in WHOLE:
                parts.append(
                    (x.unsqueeze(-1) == torch.arange(size, device=x.device)).to(dtype)
                )  # one_hot does not go through vmap
            else:
                parts.append(self.norms[str(i)](x) if str(i) in self.norms else x)
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        out: Tensor = self.layers(whole).squeeze(-1)
        return out * self.label_scale


def mlp(
    fields: Sequence[Field],
    *,
    hidden: Sequence[int] = (64, 32),
    loss: str = "mse",
    label_scale: float = 1.0,
    normalise: bool = False,
) -> Model:
    """Make an ``MLP`` model, without id tables."""
    module = MLP(fields, hidden, label_scale=label_scale, normalise=normalise)
    return Model(module, fields=[f.name for f in fields], loss=loss)
