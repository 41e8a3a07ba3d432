"""The change model: it predicts how a quantity changes until its next measurement."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.errors import InvalidValue
from alphaedge.models.mlp import make_layers
from alphaedge.models.running_norm import RunningNorm


@final
class Change(nn.Module):
    """Predicts the newest value times exp(``output_scale`` (linear + layers)). It starts as persistence, a factor of 1.

    The first field is the history of several non-negative quantities: the last ``hours`` values of the predicted one,
    newest first, then those of the others. The inputs are the logarithm of each newest value and its changes from hour
    to hour, which tell more about the next change than levels do. All numbers pass through a ``RunningNorm``.

    >>> Change([Field("past", "number", 2)], hours=2)(torch.tensor([[3.0, 5.0]])).tolist()
    [3.0]
    """

    def __init__(
        self, fields: Sequence[Field], *, hours: int, hidden: Sequence[int] = (16,), output_scale: float = 0.1
    ) -> None:
        super().__init__()
        if any(f.kind != "number" for f in fields) or fields[0].size % hours:
            sizes = {f.name: f.size for f in fields}
            raise InvalidValue("fields", sizes, f"numbers only, and of the first {hours} for each quantity")
        self.hours, self.output_scale = hours, output_scale
        self.norms = nn.ModuleList([RunningNorm(f.size) for f in fields])
        width = sum(f.size for f in fields)
        self.linear, self.layers = nn.Linear(width, 1), make_layers(width, hidden)
        output = self.layers[-1]
        assert isinstance(output, nn.Linear)
        for last in (self.linear, output):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, past: Tensor, *others: Tensor) -> Tensor:
        """Return one prediction per example, [B]."""
        levels = past.clamp(min=0).log1p().reshape(*past.shape[:-1], -1, self.hours)
        moves = torch.cat([levels[..., :1], levels[..., :-1] - levels[..., 1:]], dim=-1).flatten(-2)
        numbers = torch.cat([norm(x) for norm, x in zip(self.norms, (moves, *others), strict=True)], dim=-1)
        change: Tensor = (self.linear(numbers) + self.layers(numbers)).squeeze(-1) * self.output_scale
        # At most a factor of e^2 = 7.4, so that a wild output stays finite.
        return past[..., 0] * torch.exp(change.clamp(-2, 2))


def change(fields: Sequence[Field], *, hours: int, loss: str = "smape") -> Model:
    """Make a ``Change`` model, trained on the score itself."""
    return Model(Change(fields, hours=hours), fields=[f.name for f in fields], loss=loss)
