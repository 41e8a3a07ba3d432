"""Tallies: what edges have counted of an id. They add up, where parameters can only be averaged.

An edge counts, for each id, the events n that it has learned from and the sum S of their labels, standardised by the
edge's own labels so far, (y - mean) / deviation. So tallies of edges with other base rates or other units can be added.
A model is told three numbers of an id, as of before the batch:

    rate = S / (n + c),     own rate = S_i / (n_i + c),     amount = log(1 + n) / 4

where S = S_i + sum_j t_j S_j and n = n_i + sum_j t_j n_j are of the edge itself and of the peers that it hears, by its
trust t_j in them, and c = ``SMOOTHING`` events without a tendency stand for what is not known yet.

An edge publishes its own tally alone, never what it has heard, so nothing is counted twice. Trust is learned
(``core.hearing``): a peer is believed as far as its tallies have told the edge's own labels in advance.

For a model with a ridge (core.ridge), S sums what the label leaves to explain beside everything but the id
(``unexplained``), since labels alone would be counted as often as there are fields.

A row of a tallied id table is [parameters | own tally | heard].
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from alphaedge.core.labels import LARGEST

COLUMNS: Final = 2  # of a tally: events, and the sum of their standardised labels
TOLD: Final = 3  # what a model is told of an id: rate, own rate, amount
SMOOTHING: Final = 4.0


def tell(rows: Tensor, width: int) -> Tensor:
    """What a model is told of ids, [..., 3], from their rows [..., columns]; width: of the parameters."""
    own, heard = torch.split_with_sizes(rows[..., width:], [COLUMNS, COLUMNS], dim=-1)
    events = own[..., 0] + heard[..., 0]
    return torch.stack([rate(own + heard), rate(own), torch.log1p(events) / 4], dim=-1)


def rate(tallies: Tensor) -> Tensor:
    """The mean standardised label of ids, drawn towards 0 where it was counted on few events."""
    return tallies[..., 1] / (tallies[..., 0] + SMOOTHING)


def unexplained(errors: Tensor, unit: Tensor, rates: Tensor, labels: Tensor) -> Tensor:
    """What to count of ids for a model with a ridge: what a label leaves to explain beside all but the id, [k, B].

    errors [k, B]: labels less outputs. unit [k]: of the labels, 0 where it is not known yet; ``labels`` count then.
    rates [k, B]: of the ids as the model was told, at a weight of about 1. A mean of labels would hold the effects of
    everything that happens to come with an id; this is what recursive fits of one effect at a time use.
    """
    known = unit.unsqueeze(1) > 0
    return torch.where(known, errors / torch.where(known, unit.unsqueeze(1), 1) + rates, labels).clamp(
        -LARGEST, LARGEST
    )


def count(tallies: Tensor, places: Sequence[Tensor], labels: Tensor) -> None:
    """Add labels [k, B] to the tallies [rows, 2] in place; places: for each field, the row of each example, [k, B]."""
    news = torch.stack([torch.ones_like(labels), labels], dim=-1).view(-1, COLUMNS)
    for place in places:
        tallies.index_add_(0, place.reshape(-1), news)


def possible(claims: Tensor) -> Tensor:
    """Tallies that somebody claims, cut to what can be true."""
    events, total = claims.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).unbind(-1)
    events = events.clamp(min=0)
    bound = LARGEST * events
    return torch.stack([events, torch.minimum(torch.maximum(total, -bound), bound)], dim=-1)
