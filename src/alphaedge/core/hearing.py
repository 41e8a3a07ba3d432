"""Whom an edge believes about ids: the tallies of peers, by the trust that they have earned (``core.tally``).

On the edge's own revealed batches, with standardised labels z and the rate r_j that peer j's tallies give each example
(the sum over its ids), the best factor of r_j is sum(z r_j) / sum(r_j^2): about 1 for a peer whose users and items are
like the edge's own, 0 for one that knows nothing about them, negative for a liar. Trust is that factor, less two bounds
on its standard error, so that among many peers hardly anybody is believed by chance:

    t_j = clip( (P_j + c t_0 - 2 sqrt(Q_j)) / (Q_j + c), 0, 1 )

with P_j <- memory P_j + sum(z r_j) and Q_j <- memory Q_j + sum(r_j^2) over the rounds so far. (The labels z have
variance 1, so P_j has a variance of at most Q_j where r_j tells nothing; with this memory Q_j / 1.95, in the long run.)
And no peer counts for more events than ``MAX_EVENTS_RATIO`` times those that the edge itself has counted, whatever it
claims.

Tallies add up and are small, so an edge hears more peers than it can mix: beside its neighbours, ``Method.hear`` others
whose tallies alone it pulls. Whoever of them says nothing, or is not believed, gives way to a peer drawn at random, a
few at a time, since a newcomer's tallies must be pulled from the first on.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, final

import torch
from torch import Tensor

from alphaedge.core.aggregation import Mixing
from alphaedge.core.batch import Batch, join
from alphaedge.core.labels import LABELS, deviations
from alphaedge.core.links import Ear, Links
from alphaedge.core.selection import P, draw_peers
from alphaedge.core.tally import COLUMNS, possible, rate

MEMORY: Final = 0.95  # of a round
FIRST_TRUST: Final = 0.5
PRIOR: Final = 5.0  # c, what the first trust counts for
ERRORS: Final = 2.0  # bounds on its standard error that trust is lowered by
MAX_EVENTS_RATIO: Final = 4.0
NEWCOMERS: Final = 3  # others that give way at once
FORMER: Final = 50  # peers that are no longer heard and remembered all the same


@final
@dataclass(frozen=True)
class Overheard:
    """The tallies of peers that g edges hear beside their neighbours, in the order of ``links[i].others``, up to H.

    tallies: per id table [g, H, rows + 1, 2], in the numbering of the edge that hears them; [g, H, rows + 1, 0] of one
    that has none. publications: the number of each, [g][H]. present: whose tallies there are, [g, H].
    """

    tallies: tuple[Tensor, ...]
    publications: Sequence[Sequence[int]]
    present: Tensor


def hear(mixing: Mixing, links: Sequence[Links[Any]], overheard: Overheard | None = None) -> None:
    """Take over what peers have counted of ids, and bring what ``links`` say of them up to date.

    The peers are the neighbours that are present, and those that are ``overheard``.
    """
    layouts, held, present = mixing.gradients.model.tables, mixing.held, mixing.present
    shared = [t for t, layout in enumerate(layouts) if held.tables[t].shape[2] > layout.width]
    if not shared:
        return
    claims = {t: held.tables[t][..., layouts[t].width :][held.index] for t in shared}
    if overheard is not None:
        present = torch.cat([present, overheard.present], dim=1)
        # Others are not asked about ids that are new to the edge: what they have counted of those comes later.
        known = {t: mixing.known[t][:, None, :, None] for t in shared}
        claims = {t: torch.cat([told, overheard.tallies[t] * known[t]], dim=1) for t, told in claims.items()}
    claims = {t: possible(told) for t, told in claims.items()}
    agreed, size = _evidence(mixing, claims)
    trust = _learn_trust(links, mixing.present.shape[1], present, agreed, size)
    for t in shared:
        table = mixing.models.tables[t]
        own = table.value[table.edges, :, table.width].sum(1)
        named = (mixing.known[t] | mixing.wanted[t] if mixing.wanted else mixing.known[t]).unsqueeze(2)
        sums = add_up(claims[t] * named.unsqueeze(1), trust, own)
        before = table.value[table.edges, :, table.width + COLUMNS :]
        table.value[table.edges, :, table.width + COLUMNS :] = torch.where(named, sums, before)


def listen(edge: P, links: Links[P], candidates: Sequence[P], many: int, rng: random.Random) -> None:
    """Choose the others, so many, that an edge hears beside its neighbours until the next choice."""
    taken = {edge}.union(links.neighbours)
    staying = [j for j in links.others if j not in taken and j in candidates][:many]
    doubtful = sorted((j for j in staying if not is_believed(links.ears[j])), key=lambda j: links.ears[j].told)
    room = many - len(staying)
    drawn = draw_peers(candidates, room + len(doubtful[:NEWCOMERS]), taken.union(staying), rng, shuffled=True)
    leaving = set(doubtful[: max(0, len(drawn) - room)])
    links.listen([j for j in staying if j not in leaving] + drawn)
    former = [j for j in links.ears if j not in taken and j not in links.others]
    for j in former[: max(0, len(former) - FORMER)]:  # the oldest
        del links.ears[j]


def is_believed(ear: Ear) -> bool:
    """Whether a peer has said something, and there is reason to believe it."""
    return ear.told > 0 and trust_in(ear) > 0


def add_up(claims: Tensor, trust: Tensor, own: Tensor) -> Tensor:
    """The tallies [g, P, R, 2] that P peers claim, added up by trust [g, P] for edges with ``own`` events [g]."""
    events = claims[..., 0].sum(2).clamp(min=1)
    weight = trust * (MAX_EVENTS_RATIO * own.unsqueeze(1) / events).clamp(max=1)
    return torch.einsum("gp,gprc->grc", weight, claims)


def trust_in(ear: Ear) -> float:
    """How far an edge believes the tallies of a peer, from 0 to 1."""
    known = ear.agreed + PRIOR * FIRST_TRUST - ERRORS * sqrt(ear.told)
    return min(1.0, max(0.0, known / (ear.told + PRIOR)))


def _evidence(mixing: Mixing, claims: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
    """Sums of z r and of r^2 over all examples, for every peer, [g, P]."""
    buffers, model = mixing.models.buffers, mixing.gradients.model
    whole = join(mixing.batches, model.tables)
    rates = sum(_rates(mixing, t, claims[t], whole) for t in claims)
    assert isinstance(rates, Tensor)
    labels = deviations(buffers[LABELS], model.changes(buffers, whole.inputs, whole.labels)).unsqueeze(1)
    return (labels * rates).sum(2), rates.square().sum(2)


def _rates(mixing: Mixing, table: int, claims: Tensor, batch: Batch) -> Tensor:
    """The rate that each peer's tallies [g, P, R, 2] of one table give each example, [g, P, B]."""
    rows = batch.rows[table]
    known = mixing.known[table].gather(1, rows).unsqueeze(1)
    place = rows[:, None, :, None].expand(-1, claims.shape[1], -1, COLUMNS)
    found = rate(claims.gather(2, place)) * known
    total = found.new_zeros(*found.shape[:2], batch.labels.shape[1])
    for field in mixing.gradients.model.tables[table].fields:
        total = total + found.gather(2, batch.inputs[field].unsqueeze(1).expand_as(total))
    return total


def _learn_trust(links: Sequence[Links[Any]], width: int, present: Tensor, agreed: Tensor, size: Tensor) -> Tensor:
    """Note the evidence of a round; how far each peer is believed now, [g, P], and 0 if it is not present.

    width: the columns of neighbours; those of others come after them.
    """
    found = [[0.0] * row.shape[0] for row in present]
    for row, each, there, some, much in zip(
        found, links, present.tolist(), agreed.tolist(), size.tolist(), strict=True
    ):
        for place, peer in [*enumerate(each.neighbours), *enumerate(each.others, width)]:
            if place < len(there) and there[place]:
                ear = each.ears.setdefault(peer, Ear())
                ear.agreed, ear.told = MEMORY * ear.agreed + some[place], MEMORY * ear.told + much[place]
                row[place] = trust_in(ear)
    return agreed.new_tensor(found)
