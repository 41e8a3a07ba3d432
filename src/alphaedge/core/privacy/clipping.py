"""Sums of gradients to which one user adds at most a given length.

With G_u the sum of the gradients of user u's examples, the sum over users is

    sum_u G_u min(1, clip / |G_u|)        (Abadi et al., CCS 2016; users: McMahan et al., ICLR 2018)

The length of G_u follows from the inner products of single gradients, which for a linear layer are products of two
short ones: <d_i a_i', d_j a_j'> = <d_i, d_j> <a_i, a_j>. So no gradient of a user is written out.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.per_example import PerExample

SMALLEST: Final = 1e-12


@final
class ClippedSum(NamedTuple):
    """The sum of clipped gradients of k edges: by the dense part [k, D], and by whole id tables [k, rows + 1, width].

    ``rows`` has an entry for each released table.
    """

    dense: Tensor
    rows: tuple[Tensor, ...]


def lengths(found: PerExample, rows: Sequence[Tensor], tables: Sequence[int], lot: Lot) -> Tensor:
    """The length of the gradient of each example's user, [k, B]; of the example itself where events are protected.

    tables: the released ones, by number; gradients by others are left out. rows: per released table [k, B, F], the rows
    of each example. A user's examples count all or none.
    """
    if not lot.units:
        squares = found.rest.square().sum(2)
        for linear in found.linears:
            inputs = linear.inputs.square().sum(2) + (linear.bias is not None)
            squares = squares + linear.slopes.square().sum(2) * inputs
        for table, named in zip(tables, rows, strict=True):
            slopes = found.rows[table]
            same = named.unsqueeze(3) == named.unsqueeze(2)  # an example may name a row twice
            squares = squares + (slopes @ slopes.mT * same).sum((2, 3))
        return squares.clamp(min=0).sqrt()
    products = found.rest @ found.rest.mT
    for linear in found.linears:
        inputs = linear.inputs @ linear.inputs.mT + (linear.bias is not None)
        products = products + linear.slopes @ linear.slopes.mT * inputs
    for table, named in zip(tables, rows, strict=True):
        slopes = found.rows[table].flatten(1, 2)
        same = named.flatten(1).unsqueeze(2) == named.flatten(1).unsqueeze(1)
        examples, ids = named.shape[1:]
        both = (slopes @ slopes.mT * same).view(-1, examples, ids, examples, ids)
        products = products + both.sum((2, 4))
    together = (lot.users.unsqueeze(2) == lot.users.unsqueeze(1)).to(products.dtype)
    squares = (together @ (products * together).sum(2, keepdim=True)).squeeze(2)
    return squares.clamp(min=0).sqrt()


def clipped_sum(
    found: PerExample,
    rows: Sequence[Tensor],
    tables: Sequence[int],
    weights: Tensor,
    *,
    size: int,
    places: Sequence[int],
) -> ClippedSum:
    """The sum of all examples' gradients, by weights [k, B].

    size: of the dense part. places: rows of each released table, the scratch row included.
    """
    edges = len(weights)
    dense = weights.new_zeros(edges, size)
    for linear in found.linears:
        slopes = linear.slopes * weights.unsqueeze(2)
        dense[:, linear.weight] = torch.bmm(slopes.mT, linear.inputs).flatten(1)
        if linear.bias is not None:
            dense[:, linear.bias] = slopes.sum(1)
    dense[:, found.places] = torch.bmm(weights.unsqueeze(1), found.rest).squeeze(1)
    sums = []
    for table, named, count in zip(tables, rows, places, strict=True):
        slopes = found.rows[table] * weights[:, :, None, None]
        whole = weights.new_zeros(edges * count, slopes.shape[3])
        first = torch.arange(edges, device=named.device).view(-1, 1, 1) * count
        whole.index_add_(0, (first + named).flatten(), slopes.flatten(0, 2))
        sums.append(whole.view(edges, count, -1))
    return ClippedSum(dense, tuple(sums))


def shrink(lengths: Tensor, clip: float) -> Tensor:
    """The factors min(1, clip / length) that bring lengths down to ``clip``.

    Lengths that are not finite get 0: no example may break a release, or show by breaking it that it was there.
    """
    factors = (clip / lengths.clamp(min=SMALLEST)).clamp(max=1)
    return torch.where(torch.isfinite(lengths), factors, 0)
