"""A model of the change since the last measurement, for quantities that are measured again and again."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.errors import InvalidValue
from alphaedge.models.mlp import layers
from alphaedge.models.normalise import RunningNorm


@final
class Change(nn.Module):
    """The newest value times exp(``unit`` (linear + layers)), which starts as that value: as persistence.

    The first field is the history of several quantities, none below 0: the last ``hours`` values of the predicted one,
    newest first, then those of the next. It enters as the logarithm of each newest value and its changes from hour
    to hour, which say more of the next change than levels do; all numbers pass through a ``RunningNorm``.

    >>> Change([Field("past", "number", 2)], hours=2)(torch.tensor([[3.0, 5.0]])).tolist()
    [3.0]
    """

    def __init__(
        self, fields: Sequence[Field], *, hours: int, hidden: Sequence[int] = (16,), unit: float = 0.1
    ) -> None:
        super().__init__()
        if any(f.kind != "number" for f in fields) or fields[0].size % hours:
            sizes = {f.name: f.size for f in fields}
            raise InvalidValue("fields", sizes, f"numbers only, and of the first {hours} for each quantity")
        self.hours, self.unit = hours, unit
        self.norms = nn.ModuleList([RunningNorm(f.size) for f in fields])
        width = sum(f.size for f in fields)
        self.linear, self.layers = nn.Linear(width, 1), layers(width, hidden)
        output = self.layers[-1]
        assert isinstance(output, nn.Linear)
        for last in (self.linear, output):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, past: Tensor, *others: Tensor) -> Tensor:
        """One output per example, [B]."""
        levels = past.clamp(min=0).log1p().reshape(*past.shape[:-1], -1, self.hours)
        moves = torch.cat([levels[..., :1], levels[..., :-1] - levels[..., 1:]], dim=-1).flatten(-2)
        numbers = torch.cat([norm(x) for norm, x in zip(self.norms, (moves, *others), strict=True)], dim=-1)
        change: Tensor = (self.linear(numbers) + self.layers(numbers)).squeeze(-1) * self.unit
        # Within a factor of seven, so that one wild output stays a number.
        return past[..., 0] * torch.exp(change.clamp(-2, 2))


def change(fields: Sequence[Field], *, hours: int, loss: str = "smape") -> Model:
    """A ``Change`` as a ``Model``, trained on the score itself."""
    return Model(Change(fields, hours=hours), fields=[f.name for f in fields], loss=loss)
