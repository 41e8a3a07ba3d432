"""Attacks on what a live edge has really published: by its losses, and by the tallies of ids with one event.

The attacker has the publication alone, as a peer that pulls everything. Of a real edge nobody can tell what it would
have published without an event, so members are the events that it had learned, and the others those that came later.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.audit.journal_events import JournalEvents
from alphaedge.audit.membership import Attack, loss_threshold
from alphaedge.audit.rare_ids import RareIds, read_rare_ids
from alphaedge.audit.runs import Published, gradients_of, judged
from alphaedge.core.state import ModelState
from alphaedge.edge.inputs.lookup import initial_rows
from alphaedge.edge.learning.learner import Learner


@final
@dataclass(frozen=True)
class PublicationAttack:
    """What a publication tells.

    number: of the publication. learned, later: events before and after it. loss_threshold: who was learned; None if
    there are too few of either. drift: how well the same attack tells the later half of those that came later from
    the earlier half, none of which was learned.
    """

    number: int
    learned: int
    later: int
    loss_threshold: Attack | None
    drift: Attack | None
    rare_ids: RareIds

    @property
    def tells(self) -> bool:
        """Whether losses tell the learned ones better than chance, beyond the interval."""
        found = self.loss_threshold
        return found is not None and found.auc - (found.auc_ci95 or 0.0) > 0.5


def attack_publication(learner: Learner, found: JournalEvents) -> PublicationAttack:
    """Attack the last publication of a learner. found: the events around it."""
    published, events = published_model(learner, found), found.events
    losses, _ = judged(gradients_of(learner.model, events), published, events)
    later = found.later.nonzero().squeeze(1)
    halves = torch.arange(len(later)) < len(later) // 2
    return PublicationAttack(
        learner.publication.number,
        int(found.learned.sum()),
        len(later),
        loss_threshold(losses, published.members),
        loss_threshold(losses[:, later], halves.unsqueeze(0)),
        read_rare_ids(learner.model, published, events, _counted(learner, found)),
    )


def published_model(learner: Learner, found: JournalEvents) -> Published:
    """What a peer can make of the last publication: rows that were not told are as they start."""
    model, publication, told = learner.model, learner.publication, []
    state = ModelState.start([model], [0])
    state.dense[0] = publication.dense
    for name, statistic in publication.statistics.items():
        state.buffers[name][0] = statistic
    for rows, table, keys in zip(state.tables, learner.tables, found.keys, strict=True):
        own, columns = table.rows(keys), table.published.shape[1]
        there = own >= 0
        there[there.clone()] = table.version[own[there]] > 0
        rows.value[0, : len(keys)] = initial_rows(table.start, keys)
        rows.value[0, : len(keys)][there, :columns] = table.published[own[there]]
        flags = torch.zeros(1, rows.value.shape[1], dtype=torch.bool)
        flags[0, : len(keys)] = there
        told.append(flags)
    return Published(state, found.learned.unsqueeze(0), told)


def _counted(learner: Learner, found: JournalEvents) -> list[Tensor]:
    """How many events the edge itself has counted of each id, per table, also those that have left the journal."""
    counted = []
    for t, (layout, keys) in enumerate(zip(learner.model.tables, found.keys, strict=True)):
        own, table = learner.tables[t].rows(keys), learner.mixed.tables[t].value[0]
        count = torch.zeros(layout.rows, dtype=table.dtype)
        if layout.tallied:
            count[: len(keys)] = torch.where(own >= 0, table[own.clamp(min=0), layout.width], 0)
        counted.append(count)
    return counted
