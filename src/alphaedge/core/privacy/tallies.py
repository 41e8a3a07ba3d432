"""Noisy tallies of the rows of released id tables, and which of these rows may be told.

A user adds, for each row, its events and the sum of their standardised labels: a vector over all rows that is clipped
as a whole. What was added waits, unseen by model and peers, until noise goes over it, once in several steps: noise adds
up with every time. From the first time that a row was named before, it has as much noise as if it had been there all
along: since when it is there tells who named it first.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from alphaedge.core.privacy.clipping import shrink
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.noise import Noise
from alphaedge.core.tally import COLUMNS

MAX_LABEL: Final = 2.0  # deviations that a label counts at most


def add_tallies(
    counts: Sequence[Tensor],
    there: Sequence[Tensor],
    lot: Lot,
    labels: Tensor,
    rows: Sequence[Tensor],
    times: Tensor,
    mechanism: Mechanism,
    noise: Noise,
) -> None:
    """Add a lot to the tallies of k edges, in place.

    counts: per released table [k, R, 4], tallies with noise and what waits for it. there: [k, R], how often noise went
    over each row, 0 if it was never named. labels: [k, L], standardised. rows: per released table [k, L, F].
    times: [k], how often noise goes over the tallies of an edge, this time included; 0 if it is not time.
    """
    news = torch.stack([torch.ones_like(labels), labels.clamp(-MAX_LABEL, MAX_LABEL)], dim=-1)
    tables, most = len(rows), max(since.shape[1] for since in there)
    names, pairs = [], []
    for place, named in enumerate(rows):  # user, table and row of every id of every event that counts, as one number
        mask = lot.tally_counts.unsqueeze(2).expand_as(named)
        names.append(((lot.users.unsqueeze(2) * tables + place) * most + named)[mask])
        pairs.append(news.unsqueeze(2).expand(*named.shape, -1)[mask])
    unique, of = torch.unique(torch.cat(names), return_inverse=True)
    row, table, user = unique % most, unique // most % tables, unique // (most * tables)
    edge_of = torch.zeros_like(lot.users.flatten()).index_copy_(0, lot.users.flatten(), _edges(lot).flatten())
    sums = labels.new_zeros(len(unique), COLUMNS).index_add_(0, of, torch.cat(pairs))
    squares = labels.new_zeros(lot.users.numel()).index_add_(0, user, sums.square().sum(1))
    sums = sums * shrink(squares.sqrt(), mechanism.tally_clip)[user].unsqueeze(1)
    for place, (whole, since) in enumerate(zip(counts, there, strict=True)):
        here = table == place
        whole[..., COLUMNS:].index_put_((edge_of[user[here]], row[here]), sums[here], accumulate=True)
        whole[:, -1] = 0  # the scratch row stands for no id
        for edge in (times > 0).nonzero().flatten().tolist():
            waiting, seen = whole[edge, :, COLUMNS:], since[edge] > 0
            there_now, spread = seen | (waiting[:, 0] > 0), (~seen * times[edge] + seen).sqrt().unsqueeze(1)
            drawn = mechanism.tally_noise * spread.double() * noise([edge], *waiting.shape)[0].to(whole.device)
            told = (whole[edge, :, :COLUMNS] + waiting).double() + drawn * there_now.unsqueeze(1)
            whole[edge, :, :COLUMNS] = told.to(whole.dtype)
            since[edge] = there_now * times[edge]
            waiting.zero_()


def _edges(lot: Lot) -> Tensor:
    """The edge of each event, [k, L]."""
    return torch.arange(len(lot.users), device=lot.users.device).unsqueeze(1).expand_as(lot.users)


def shown(counts: Tensor, may: Tensor) -> Tensor:
    """Noisy tallies [..., 4] as a model and peers are told them: possible ones, and 0 where a row may not be told."""
    events = counts[..., :1].clamp(min=0)
    whole = torch.cat([events, counts[..., 1:COLUMNS].clamp(-MAX_LABEL * events, MAX_LABEL * events)], dim=-1)
    return torch.where(may.unsqueeze(-1), whole, 0.0)
