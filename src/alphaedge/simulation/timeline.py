"""When things happen: the moment of every batch, who is there, and which aggregations may run side by side.

Two clocks. In **event time** a batch happens when its last event does, and a peer reads the model that an edge
published at its last aggregation. By **batch index** all edges are in lock-step, as the paper seems to have them: at
every E-th batch everybody publishes, then everybody reads.

An edge's training between two aggregations depends on no other edge, so all edges train their next span at once.
Their aggregations then follow, as far as they need no span that is not trained yet. Where edges publish before they
mix, those run side by side: all publish, and each reads what the others had published at its own moment. Where they
publish after it, a mix needs others' mixes, and the aggregations follow in time order (``levels``).
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import final

import torch
from torch import Tensor

from alphaedge.simulation.batches import Clock
from alphaedge.simulation.conditions import Conditions


@final
class Timeline:
    """Moments (0 to 1) of the batches of one run's edges, and the span in which each edge takes part.

    times: for each edge, when its batches happen (``simulation.batches.batch_times``).
    """

    def __init__(self, times: Sequence[Tensor], clock: Clock, conditions: Conditions, aggregate_every: int) -> None:
        self.clock = clock
        self.every, self.times = aggregate_every, times
        self.moments: list[Tensor] = []
        first, last = min(float(t.min()) for t in times), max(float(t.max()) for t in times)
        longest = max(len(t) for t in times)
        for own in times:
            if clock == "event-time":
                self.moments.append((own - first) / max(last - first, 1e-12))
            else:
                steps = torch.arange(len(own), dtype=torch.float64, device=own.device)
                self.moments.append(steps / max(1, longest - 1))
        edges = range(len(times))
        self.join = [conditions.joins.get(e, 0.0) for e in edges]
        self.leave = [conditions.leaves.get(e, float("inf")) for e in edges]
        self.churn = bool(conditions.joins or conditions.leaves)
        self.first = [int((m < j).sum()) for m, j in zip(self.moments, self.join, strict=True)]
        self.last = [int((m < x).sum()) for m, x in zip(self.moments, self.leave, strict=True)]

    def next_aggregation(self, edge: int, number: int) -> int | None:
        """The edge's first aggregation batch that is not before batch ``number``; None if its stream ends first."""
        origin = self.first[edge] if self.clock == "event-time" else 0
        batch = number + (self.every - 1 - (number - origin)) % self.every
        return batch if batch < self.last[edge] else None

    def moment(self, edge: int, number: int | None) -> float:
        """When a batch happens; never, if there is none."""
        return float("inf") if number is None else float(self.moments[edge][number])

    def publications_in(self, batches: int) -> int:
        """The most publications of one edge while another gets so many batches (an upper bound)."""
        if not batches:
            return 0
        longest = max(float((m[batches:] - m[:-batches]).max()) if len(m) > batches else 1.0 for m in self.moments)
        most = 0
        for edge, moments in enumerate(self.moments):
            origin = self.first[edge] if self.clock == "event-time" else 0
            at = moments[origin + self.every - 1 :: self.every].contiguous()
            counts = torch.searchsorted(at, at + longest, right=True) - torch.arange(len(at), device=at.device)
            most = max(most, int(counts.max()) if len(at) else 0)
        return most

    def member(self, edge: int, moment: float) -> bool:
        """Whether an edge has joined and not left."""
        return self.join[edge] <= moment < self.leave[edge]


def levels(when: Mapping[int, float], reads: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Cut due events into groups that may run at once, with the outcome of running them one by one in time order.

    In an event an edge reads others, mixes, then publishes. So it runs after the earlier events of those it reads, and
    not before the earlier events of those that read it. Events of one moment share a group.

    >>> levels({0: 0.1, 1: 0.2, 2: 0.3}, {0: [2], 1: [0], 2: []})
    [[0, 2], [1]]
    """
    level: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for _, group in groupby(sorted(when, key=lambda e: when[e]), key=lambda e: when[e]):
        together = list(group)
        depth = 0
        for edge in together:
            depth = max([depth, *(level[j] + 1 for j in reads[edge] if j in level)])
            depth = max([depth, *(level[r] for r in readers.get(edge, []))])
        for edge in together:
            level[edge] = depth
        for edge in together:
            for j in reads[edge]:
                readers.setdefault(j, []).append(edge)
    groups: dict[int, list[int]] = {}
    for edge, depth in level.items():
        groups.setdefault(depth, []).append(edge)
    return [groups[d] for d in sorted(groups)]
