"""What edges have published: the models that others may pull, as many generations back as somebody may read."""

from collections.abc import Mapping
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.core.start import median
from alphaedge.core.state import ModelState

_BLOCK: Final = 256  # edges whose models are copied at once


@final
class Publications:
    """The last ``depth`` publications of every edge; number 0 is the initial model.

    In an id table only rows trained since the last publication change (see core.exchange), so ``version`` says in
    which publication a row last changed, 0 for a row that its edge has never trained; such rows are zero here.
    """

    def __init__(self, state: ModelState, depth: int, statistics: tuple[str, ...]) -> None:
        n, device = len(state), state.device
        self.depth = depth
        self.number = torch.zeros(n, dtype=torch.long, device=device)
        self.records = torch.zeros(depth, n, dtype=torch.long, device=device)
        self.dense = state.dense.repeat(depth, 1, 1)
        self.tables = [t.value.new_zeros(depth, *t.value.shape) for t in state.tables]
        self.version = [t.value.new_zeros(depth, *t.value.shape[:2], dtype=torch.int32) for t in state.tables]
        self.statistics = {
            name: state.buffers[name].repeat(depth, *[1] * state.buffers[name].dim()) for name in statistics
        }

    def publish(self, edges: Tensor, state: ModelState, trained: list[Tensor], records: Tensor) -> None:
        """Publish the named edges of the state; ``trained[t]`` [n, rows + 1] are their rows to publish anew."""
        for some in torch.split(edges, _BLOCK):
            self._publish(some, state, trained, records)

    def _publish(self, edges: Tensor, state: ModelState, trained: list[Tensor], records: Tensor) -> None:
        before = self.number[edges] % self.depth
        self.number[edges] += 1
        now = self.number[edges] % self.depth
        self.dense[now, edges] = state.dense[edges]
        self.records[now, edges] = records[edges]
        for name, pool in self.statistics.items():
            pool[now, edges] = state.buffers[name][edges]
        for t, table in enumerate(state.tables):
            if self.depth > 1:
                self.tables[t][now, edges] = self.tables[t][before, edges]
                self.version[t][now, edges] = self.version[t][before, edges]
            which, row = trained[t][edges].nonzero(as_tuple=True)
            width = table.value.shape[-1]
            source = edges[which] * table.value.shape[1] + row
            target = now[which] * table.value.shape[0] * table.value.shape[1] + source
            self.tables[t].view(-1, width).index_copy_(0, target, table.value.view(-1, width).index_select(0, source))
            self.version[t].view(-1).index_copy_(0, target, self.number[edges][which].to(torch.int32))

    def slot(self, edges: Tensor, staleness: int, newest: Tensor) -> tuple[Tensor, Tensor]:
        """Place in the pool [depth * n] of each named edge's publication of that age, and its number (>= 0).

        newest: the numbers of their newest publications at the moment at which they are read.
        """
        number = (newest - staleness).clamp(min=0)
        return (number % self.depth) * self.dense.shape[1] + edges, number

    def give(self, sources: Mapping[int, int], state: ModelState, edge: int) -> None:
        """Start an edge of the state from the median of others' publications, named by edge and number."""
        some, numbers = torch.tensor(list(sources.items()), device=state.device).unbind(1)
        slots = numbers % self.depth
        state.dense[edge] = median(self.dense[slots, some])
        for name, pool in self.statistics.items():
            state.buffers[name][edge] = median(pool[slots, some])
        for table, pool, version in zip(state.tables, self.tables, self.version, strict=True):
            trained = version[slots, some] > 0
            rows = trained.any(0)
            found, there = pool[slots, some][:, rows], trained[:, rows].unsqueeze(2)
            table.value[edge, rows] = median(found, there.expand_as(found))
