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
    return shrink(user_lengths(found, own, lot, weights), clip) * weights if lot.units else weights


def lengths(found: PerExample) -> Tensor:
    """The length of the gradient of each example, [k, L]; not finite where it is too large to be squared."""
    squares: Tensor = torch.linalg.vecdot(found.rest, found.rest)
    for linear in found.linears:
        inputs = torch.linalg.vecdot(linear.inputs, linear.inputs) + (linear.bias is not None)
        squares = squares + torch.linalg.vecdot(linear.slopes, linear.slopes) * inputs
    return squares.sqrt()


def user_lengths(found: PerExample, own: Tensor, lot: Lot, weights: Tensor) -> Tensor:
    """At least the length of the sum of all examples of an example's user, by weights [k, L]; own: ``lengths(found)``.

    With w_i the weights, d_i and a_i the factors by each linear layer l, and r_i the rest,

        |G_u|^2 = sum_ij w_i w_j sum_l <d_i, d_j> <a_i, a_j> + |sum_i w_i r_i|^2        over examples i, j of user u

    What cancels in the sum does not cancel in its terms, and the rounding of terms must not pass for a short sum. So
    the most that it can have taken off is added: n operations on each term, each off by a share of at most e, change
    |G_u|^2 by at most n e (sum_i w_i |g_i|)^2 / (1 - n e) (Higham, "Accuracy and Stability of Numerical Algorithms",
    2002, section 3.1).
    """
    squares = torch.zeros_like(weights).flatten()  # by number of the user
    for some in lot.by_user():
        scale = (weights.take(some.examples) * some.there).unsqueeze(2)
        products = scale.new_zeros(*some.examples.shape, some.examples.shape[1])
        for linear in found.linears:
            slopes, inputs = some.of(linear.slopes), some.of(linear.inputs)
            products.addcmul_(torch.bmm(slopes, slopes.mT), torch.bmm(inputs, inputs.mT).add_(linear.bias is not None))
        counts = scale > 0
        products.masked_fill_(~(counts & counts.mT), 0)  # those of an example of enormous length are not finite
        total = products.mul_(scale).mul_(scale.mT).sum((1, 2))
        if len(found.places):
            total += torch.bmm(scale.mT, some.of(found.rest)).double().square().sum((1, 2)).to(total.dtype)
        most = (own.take(some.examples).unsqueeze(2) * scale).masked_fill_(~counts, 0).sum((1, 2))
        squares[some.users] = total.clamp(min=0) + _rounding(found, some.examples.shape[1], own.dtype) * most.square()
    return squares.sqrt()[lot.users]


def _rounding(found: PerExample, examples: int, dtype: torch.dtype) -> float:
    """What a squared length of so many examples may be off, as a share of the square of all their lengths."""
    longest = max((one.slopes.shape[2] + one.inputs.shape[2] for one in found.linears), default=0)
    operations = longest + len(found.linears) + examples**2 + 8
    share = operations * torch.finfo(dtype).eps
    return share / (1 - share)


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
