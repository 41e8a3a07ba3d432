"""The model of tables with numbers to predict: a ridge regression with a DeepFM beside it.

y = (last value, or 0) + mean + deviation * ( w [numbers | rates of ids and categories | 1] + DeepFM )

where mean and deviation are of the labels so far, or of their changes since the last value (core.labels), and w is
solved for (core.ridge). It starts as the mean so far, or as persistence; the linear part fits within some batches; the
DeepFM learns what is left: products of inputs, curves, and rows of ids.
"""

from collections.abc import Sequence
from typing import Final, final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import KEYED, Field
from alphaedge.core.model import IdTable, Model
from alphaedge.models.deepfm import DeepFM
from alphaedge.models.running_norm import RunningNorm

MEMORY: Final = 20_000.0  # examples after which older ones fade, as in a RunningNorm
RATE_WEIGHT: Final = 1.0  # at the start, of what an id's events have left to explain


@final
class RidgeLinear(nn.Module):
    """Weights of inputs [B, size] and of a constant, with the gram of what they have been trained on."""

    gram: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size + 1))
        self.register_buffer("gram", torch.zeros(size + 1, size + 1))

    def forward(self, values: Tensor) -> Tensor:
        """Return one number per example, [B]."""
        whole = torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)
        if self.training:
            seen = whole.detach()
            kept = max(0.0, 1 - seen.shape[-2] / MEMORY)
            self.gram.copy_(kept * self.gram + seen.transpose(-1, -2) @ seen)
        return whole @ self.weight


@final
class TableModel(nn.Module):
    """See above; without the labels, which the core knows. dim, hidden, spread: of the ``DeepFM``.

    The tallies of all ids and categories come after the fields.
    """

    def __init__(
        self, fields: Sequence[Field], *, dim: int = 8, hidden: Sequence[int] = (32,), spread: float = 0.003
    ) -> None:
        super().__init__()
        self.fields = len(fields)
        self.numbers = [i for i, f in enumerate(fields) if f.kind == "number"]
        self.others = [i for i, f in enumerate(fields) if f.kind != "number"]
        size = sum(fields[i].size for i in self.numbers)
        missing = any(fields[i].missing for i in self.numbers)
        self.norm = RunningNorm(size, missing=missing) if size else None
        keyed = sum(f.kind in KEYED for f in fields)
        self.linear = RidgeLinear(size + keyed)
        with torch.no_grad():
            self.linear.weight[size : size + keyed] = RATE_WEIGHT
        rest = [fields[i] for i in self.others] + ([Field("numbers", "number", size)] if size else [])
        self.rest = DeepFM(rest, dim=dim, hidden=hidden, spread=spread)
        output = self.rest.deep[-1]
        assert isinstance(output, nn.Linear)
        nn.init.zeros_(output.weight)
        nn.init.zeros_(output.bias)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return one number per example, in the unit of the labels: [B]."""
        rest, linear = [inputs[i] for i in self.others], list[Tensor]()
        if self.norm is not None:
            numbers = self.norm(torch.cat([inputs[i] for i in self.numbers], dim=-1))
            rest.append(numbers)
            linear.append(numbers)
        linear += [tally[..., :1] for tally in inputs[self.fields :]]
        found: Tensor = self.linear(torch.cat(linear, dim=-1)) + self.rest(*rest)
        return found


def table_model(
    fields: Sequence[Field],
    *,
    hidden: Sequence[int] = (32,),
    last: str | None = None,
    relative: bool = False,
) -> Model:
    """Make a ``TableModel`` that predicts a number. The rows of every id and category field are an id table.

    last: the number field with the newest known value of the label, if there is one. relative: whether labels are 0 or
    more and change by factors, so that their logarithms are what is predicted.
    """
    keyed = [f.name for f in fields if f.kind in KEYED]
    tables = [IdTable((name,), (f"rest.ids.{i}",)) for i, name in enumerate(keyed)]
    return Model(
        TableModel(fields, hidden=hidden),
        fields=[f.name for f in fields],
        tables=tables,
        tallies=keyed,
        loss="log" if relative else "mse",
        centre=True,
        last=last,
        ridge="linear",
    )
