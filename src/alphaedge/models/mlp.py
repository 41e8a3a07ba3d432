"""A multilayer perceptron over the numbers of a batch."""

from collections.abc import Sequence
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import Field
from alphaedge.core.model import Model


def layers(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    """Linear and ReLU layers down to one output."""
    widths = [inputs, *hidden]
    stack: list[nn.Module] = []
    for a, b in pairwise(widths):
        stack += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(widths[-1], 1))


@final
class MLP(nn.Module):
    """Numbers and sets side by side through ReLU layers; categories enter as one-hot vectors.

    >>> MLP([Field("x", "number", 3)])(torch.zeros(2, 3)).shape
    torch.Size([2])
    """

    def __init__(self, fields: Sequence[Field], hidden: Sequence[int] = (64, 32)) -> None:
        super().__init__()
        self.kinds = tuple((f.kind, f.size) for f in fields)
        self.layers = layers(sum(f.size for f in fields), hidden)

    def forward(self, *inputs: Tensor) -> Tensor:
        """One output per example, [B]."""
        dtype = next(self.parameters()).dtype
        parts = [
            # one_hot does not go through vmap
            (x.unsqueeze(-1) == torch.arange(size)).to(dtype) if kind in ("id", "category") else x
            for (kind, size), x in zip(self.kinds, inputs, strict=True)
        ]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        out: Tensor = self.layers(whole)
        return out.squeeze(-1)


def mlp(fields: Sequence[Field], *, hidden: Sequence[int] = (64, 32), loss: str = "mse") -> Model:
    """An ``MLP`` as a ``Model``, without id tables."""
    return Model(MLP(fields, hidden), fields=[f.name for f in fields], loss=loss)
