"""DeepFM (Guo et al., IJCAI 2017): first-order terms, a factorisation machine and an MLP over shared embeddings.

y = b + sum_i w_i x_i + 1/2 sum_d [ (sum_i e_id x_i)^2 - sum_i (e_id x_i)^2 ] + MLP([e_i x_i])
"""

from collections.abc import Sequence
from typing import Final, final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import KEYED, Field
from alphaedge.core.model import IdTable, Model
from alphaedge.core.tally import TOLD
from alphaedge.errors import InvalidValue
from alphaedge.models.mlp import make_layers
from alphaedge.models.running_norm import RunningNorm

RATE_WEIGHT: Final = 0.5  # of an id's rate at the start: what is known of it counts before anything is learned


@final
class DeepFM(nn.Module):
    """A model over fields of all kinds.

    The row of a feature holds its first-order weight and its embedding side by side. A number is a feature whose row is
    multiplied by the value; a set is the mean of its members' rows. All codes share one matrix, for one look-up.

    dim: size of embeddings. hidden: widths of the MLP. spread: standard deviation of initial rows. label_scale: factor
    of the output, about the size of the labels. normalise: whether numbers pass through a ``RunningNorm`` first.
    tallies: how many tallies of id fields ``forward`` takes after all fields (core.tally). They are numbers like
    others, but an id's rate counts from the start.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        *,
        dim: int = 8,
        hidden: Sequence[int] = (64, 32),
        spread: float = 0.01,
        label_scale: float = 1.0,
        normalise: bool = False,
        tallies: int = 0,
    ) -> None:
        super().__init__()
        self.dim, self.label_scale, self.fields, self.told = dim, label_scale, len(fields), tallies
        self.at = {
            kind: [i for i, f in enumerate(fields) if f.kind in kinds]
            for kind, kinds in {"id": KEYED, "code": ("code",), "set": ("set",), "number": ("number",)}.items()
        }
        sizes = {kind: [fields[i].size for i in at] for kind, at in self.at.items()}

        def rows(count: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(count, 1 + dim) * spread)

        self.ids = nn.ParameterList([rows(size) for size in sizes["id"]])
        self.codes = rows(sum(sizes["code"]))
        self.sets = nn.ParameterList([rows(size) for size in sizes["set"]])
        self.numbers = rows(sum(sizes["number"]))
        self.tallies = rows(TOLD * tallies)
        with torch.no_grad():
            self.tallies[::TOLD, 0] = RATE_WEIGHT
        missing = any(f.missing for f in fields)
        if missing and not normalise:
            raise InvalidValue("normalise", False, "True: numbers that may be missing are put to their running mean")
        self.norm = RunningNorm(sum(sizes["number"]), missing=missing) if normalise and sizes["number"] else None
        self.first_row = [sum(sizes["code"][:i]) for i in range(len(sizes["code"]))]
        self.bias = nn.Parameter(torch.zeros(1))
        features = len(self.ids) + len(sizes["code"]) + len(self.sets) + sum(sizes["number"])
        features += TOLD * tallies
        self.deep = make_layers(features * dim, hidden)

    def features(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the rows of all features, multiplied by their values: [B, features, 1 + dim]."""
        parts = [
            nn.functional.embedding(inputs[i], rows).unsqueeze(-2)
            for i, rows in zip(self.at["id"], self.ids, strict=True)
        ]
        if self.at["code"]:
            codes = torch.stack([inputs[i] + row for i, row in zip(self.at["code"], self.first_row, strict=True)], -1)
            parts.append(nn.functional.embedding(codes, self.codes))
        for i, rows in zip(self.at["set"], self.sets, strict=True):
            members = inputs[i]
            parts.append((members @ rows / members.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(-2))
        if self.at["number"]:
            values = [inputs[i] for i in self.at["number"]]
            whole = values[0] if len(values) == 1 else torch.cat(values, dim=-1)
            if self.norm is not None:
                whole = self.norm(whole)
            parts.append(whole.unsqueeze(-1) * self.numbers)
        if self.told:
            parts.append(torch.cat(list(inputs[self.fields :]), dim=-1).unsqueeze(-1) * self.tallies)
        return torch.cat(parts, dim=-2)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return one logit, or one number times ``label_scale``, per example: [B]."""
        weights, vectors = torch.split_with_sizes(self.features(inputs), [1, self.dim], dim=-1)
        vectors = vectors.contiguous()  # read several times below, and strided reads are slow
        first = weights.sum((-1, -2))
        # Twice the second order is sum_i e_i (sum_j e_j - e_i). With the bracket held fixed, its gradient by e_i is
        # that of the second order itself, in a third of the operations.
        others = (vectors.sum(-2, keepdim=True) - vectors).detach()
        twice = (vectors * others).sum((-1, -2))
        second = twice - 0.5 * twice.detach()
        deep = self.deep(vectors.flatten(-2)).squeeze(-1)
        total: Tensor = self.bias + first + second + deep
        return total if self.label_scale == 1 else total * self.label_scale


def deepfm(
    fields: Sequence[Field],
    *,
    dim: int = 8,
    hidden: Sequence[int] = (64, 32),
    spread: float = 0.01,
    label_scale: float = 1.0,
    normalise: bool = False,
    tallies: Sequence[str] | None = None,
    loss: str = "bce",
) -> Model:
    """Make a ``DeepFM`` model. The rows of every id and category field are an id table.

    tallies: fields of these whose tallies the model is told (core.tally); None is all ids.
    """
    keyed = [f for f in fields if f.kind in KEYED]
    told = [f.name for f in keyed if f.kind == "id"] if tallies is None else list(tallies)
    tables = [IdTable((f.name,), (f"ids.{i}",)) for i, f in enumerate(keyed)]
    module = DeepFM(
        fields,
        dim=dim,
        hidden=hidden,
        spread=spread,
        label_scale=label_scale,
        normalise=normalise,
        tallies=len(told),
    )
    return Model(module, fields=[f.name for f in fields], tables=tables, tallies=told, loss=loss)
