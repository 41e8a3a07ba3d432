"""Reconstruction: what the publications of an edge tell of an id that has a single event there.

A row's tally has the number of its events and the sum of their standardised labels. With one event, the sign of the sum
says whether the label was above the edge's mean: of a yes or no, that is the label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from alphaedge.audit.events import Events
from alphaedge.audit.runs import Published
from alphaedge.core.model import Model


@final
@dataclass(frozen=True)
class RareIds:
    """Ids with a single event. told: how many of their rows a peer gets. read: of how many it can tell the label."""

    ids: int
    told: int
    read: int


def read_rare_ids(
    model: Model, published: Published, events: Events, counted: Sequence[Tensor] | None = None
) -> RareIds:
    """Try to read the labels of all ids with one event from the first of the runs, over all tallied tables.

    counted: per id table, how many events of each id there have been, if ``events`` are not all of them.
    """
    found = told = read = 0
    learned = published.members[0]
    high = events.labels > events.labels.mean()
    for t, table in enumerate(model.tables):
        if not table.tallied:
            continue
        state = published.models.tables[t]
        for field in table.fields:
            ids = events.inputs[field].flatten()
            counts = torch.bincount(ids[learned], minlength=table.rows)
            single = learned & (counts[ids] == 1)
            if counted is not None:
                single &= counted[t][ids] == 1
            rows = ids[single]
            sums = state.value[0, rows, state.width + 1]
            seen = published.told[t][0, rows]
            found += int(single.sum())
            told += int(seen.sum())
            read += int((seen & (sums != 0) & ((sums > 0) == high[single])).sum())
    return RareIds(found, told, read)
