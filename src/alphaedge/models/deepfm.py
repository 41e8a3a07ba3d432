"""DeepFM (Guo et al., IJCAI 2017): first order + factorisation machine + deep part over shared embeddings.

y = b + sum_i w_i x_i + 1/2 sum_d [ (sum_i e_id x_i)^2 - sum_i (e_id x_i)^2 ] + MLP([e_i x_i])
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from alphaedge.core.fields import Field
from alphaedge.core.model import IdTable, Model
from alphaedge.models.mlp import layers


@final
class DeepFM(nn.Module):
    """A click or purchase model over id, category, set and number fields; outputs a logit, [B].

    A field's row holds its first-order weight and its embedding side by side. A number is a feature whose row is
    scaled by the value; a set is the mean of its members' rows.
    """

    def __init__(
        self, fields: Sequence[Field], *, dim: int = 8, hidden: Sequence[int] = (64, 32), spread: float = 0.01
    ) -> None:
        super().__init__()
        self.kinds = tuple(f.kind for f in fields)
        self.dim = dim
        self.rows = nn.ParameterList([nn.Parameter(torch.randn(f.size, 1 + dim) * spread) for f in fields])
        self.bias = nn.Parameter(torch.zeros(1))
        features = sum(f.size if f.kind == "number" else 1 for f in fields)
        self.deep = layers(features * dim, hidden)

    def forward(self, *inputs: Tensor) -> Tensor:
        """One logit per example, [B]."""
        features = []  # each [B, features of the field, 1 + dim]
        for kind, rows, x in zip(self.kinds, self.rows, inputs, strict=True):
            if kind == "number":
                features.append(x.unsqueeze(-1) * rows)
            elif kind == "set":
                features.append((x @ rows / x.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(-2))
            else:
                features.append(nn.functional.embedding(x, rows).unsqueeze(-2))
        whole = torch.cat(features, dim=-2)
        weights, vectors = torch.split_with_sizes(whole, [1, self.dim], dim=-1)
        first = weights.sum((-1, -2))
        total_vector = vectors.sum(-2)
        second = 0.5 * ((total_vector * total_vector).sum(-1) - (vectors * vectors).sum((-1, -2)))
        deep = self.deep(vectors.flatten(-2)).squeeze(-1)
        total: Tensor = self.bias + first + second + deep
        return total


def deepfm(fields: Sequence[Field], *, dim: int = 8, hidden: Sequence[int] = (64, 32)) -> Model:
    """A ``DeepFM`` as a ``Model``: every id field's rows are an id table."""
    tables = [IdTable((f.name,), (f"rows.{i}",)) for i, f in enumerate(fields) if f.kind == "id"]
    return Model(DeepFM(fields, dim=dim, hidden=hidden), fields=[f.name for f in fields], tables=tables, loss="bce")
