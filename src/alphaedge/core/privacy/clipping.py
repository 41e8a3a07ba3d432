"""Sums of gradients to which one user adds at most a given length.

With G_u the sum of the gradients of user u's examples, the sum over users is

    sum_u G_u min(1, clip / |G_u|)        (Abadi et al., CCS 2016; users: McMahan et al., ICLR 2018)

The length of G_u follows from the inner products of single gradients, which for a linear layer are products of two
short ones: <d_i a_i', d_j a_j'> = <d_i, d_j> <a_i, a_j>. So no gradient of a user is written out.
"""

from typing import Final

import torch
from torch import Tensor

from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.per_example import PerExample

SMALLEST: Final = 1e-12


def clip_weights(found: PerExample, own: Tensor, lot: Lot, clip: float) -> Tensor:
    """The weights [k, L] by which examples count so that no user, or event, adds more than ``clip``; 0 if they don't.

    own: ``lengths(found)``. Where users are protected, examples are clipped first, and what is left of a user's is
    clipped as a whole. Without the first, an example of enormous length would leave nothing of other sums but rounding.
    """
    weights = shrink(own, clip) * lot.counts
    return shrink(user_lengths(found, lot, weights), clip) * weights if lot.units else weights


def lengths(found: PerExample) -> Tensor:
    """The length of the gradient of each example, [k, L]; not finite where it is too large to be squared."""
    squares: Tensor = torch.linalg.vecdot(found.rest, found.rest)
    for linear in found.linears:
        inputs = torch.linalg.vecdot(linear.inputs, linear.inputs) + (linear.bias is not None)
        squares = squares + torch.linalg.vecdot(linear.slopes, linear.slopes) * inputs
    return squares.sqrt()


def user_lengths(found: PerExample, lot: Lot, weights: Tensor) -> Tensor:
    """The length of the sum of all examples of an example's user, by weights [k, L]; in double precision.

    With w_i the weights, d_i and a_i the factors by each linear layer l, and r_i the rest,

        |G_u|^2 = sum_ij w_i w_j sum_l <d_i, d_j> <a_i, a_j> + |sum_i w_i r_i|^2        over examples i, j of user u

    What cancels in the sum does not cancel in its terms, and the rounding of terms must not pass for a short sum.
    """
    squares = torch.zeros(weights.numel(), dtype=torch.float64, device=weights.device)  # by number of the user
    for some in lot.by_user():
        scale = (weights.take(some.examples) * some.there).double().unsqueeze(2)
        products = scale.new_zeros(*some.examples.shape, some.examples.shape[1])
        for linear in found.linears:
            slopes, inputs = some.of(linear.slopes).double(), some.of(linear.inputs).double()
            products.addcmul_(torch.bmm(slopes, slopes.mT), torch.bmm(inputs, inputs.mT).add_(linear.bias is not None))
        own = products.mul_(scale).mul_(scale.mT).sum((1, 2))
        if len(found.places):
            own += torch.bmm(scale.mT, some.of(found.rest).double()).square().sum((1, 2))
        squares[some.users] = own
    return squares.clamp(min=0).sqrt().to(weights.dtype)[lot.users]


def weighted_sum(found: PerExample, weights: Tensor, size: int) -> Tensor:
    """The sum of all examples' gradients, by weights [k, L]: by the whole dense part, [k, size]."""
    dense, each = weights.new_empty(len(weights), size), weights.unsqueeze(1)
    for linear in found.linears:
        slopes = linear.slopes * each.mT
        dense[:, linear.weight] = torch.bmm(slopes.mT, linear.inputs).flatten(1)
        if linear.bias is not None:
            dense[:, linear.bias] = torch.bmm(each, linear.slopes).squeeze(1)
    if len(found.places):
        dense[:, found.places] = torch.bmm(each, found.rest).squeeze(1)
    return dense


def shrink(lengths: Tensor, clip: float) -> Tensor:
    """The factors min(1, clip / length) that bring lengths down to ``clip``.

    Lengths that are not finite get 0: no example may break a release, or show by breaking it that it was there.
    """
    factors = (clip / lengths.clamp(min=SMALLEST)).clamp(max=1)
    return torch.where(torch.isfinite(lengths), factors, 0)
