"""Step 1 of the method: online learning.

A batch X_t arrives, M_t predicts it (and is scored), y_t is revealed, and one gradient step follows:

    M_(t+1) = M_t - Adam(grad L(M_t; X_t, y_t))                                   (paper, section III-A)

With a feedback delay of d batches the step at t uses the newest revealed batch, t - d.
"""

from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.optimizer import Optimizer
from alphaedge.core.rule_check import check_rule
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Online:
    """How an edge learns from a batch: the optimizer, and how many steps (the paper: Adam at 0.001, one).

    row_optimizer: the optimizer of id rows, where they have one of their own.
    """

    optimizer: Optimizer = field(default_factory=Adam)
    local_steps: int = 1
    row_optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        check_rule("optimizer", self.optimizer, Optimizer)
        check_rule("row_optimizer", self.for_rows, Optimizer)
        check_number("local_steps", self.local_steps, low=1, whole=True)

    @property
    def for_rows(self) -> Optimizer:
        """The optimizer of id rows."""
        return self.row_optimizer or self.optimizer


def predict(models: ModelState, batch: Batch, gradients: Gradients) -> Tensor:
    """The outputs [k, B] of each edge's model on its batch."""
    rows = [t.gather(t.value, t.flat(r)) for t, r in zip(models.tables, batch.rows, strict=True)]
    return gradients.outputs(models.dense, rows, models.buffers, batch.inputs)


def learn(models: ModelState, batch: Batch, gradients: Gradients, online: Online) -> tuple[Tensor, Tensor]:
    """One online step of each edge on its revealed batch, in place.

    Returns the outputs [k, B] and losses [k] from before the step.
    """
    first: tuple[Tensor, Tensor] | None = None
    for _ in range(online.local_steps):
        found = _step(models, batch, gradients, online)
        first = first or found
    assert first is not None
    return first


def _step(models: ModelState, batch: Batch, gradients: Gradients, online: Online) -> tuple[Tensor, Tensor]:
    places = [t.flat(r) for t, r in zip(models.tables, batch.rows, strict=True)]
    rows = [t.gather(t.value, p) for t, p in zip(models.tables, places, strict=True)]
    found = gradients.gradient(models.dense, rows, models.buffers, batch.inputs, batch.labels)
    models.steps += 1
    online.optimizer.update(models.dense, models.dense_m, models.dense_v, found.dense, models.steps)
    rule = online.for_rows
    for table, batch_rows, place, value, slope in zip(models.tables, batch.rows, places, rows, found.rows, strict=True):
        if rule.lazy_rows:
            m, v = table.gather(table.m, place), table.gather(table.v, place)
            rule.update(value, m, v, slope, models.steps)
            for storage, moved in ((table.value, value), (table.m, m), (table.v, v)):
                table.scatter(storage, place, moved)
        else:
            whole = table.value[table.edges], table.m[table.edges], table.v[table.edges]
            spread = torch.zeros_like(whole[0])
            local = torch.arange(len(models), device=batch_rows.device)[:, None] * spread.shape[1] + batch_rows
            spread.view(-1, spread.shape[-1]).index_add_(0, local.reshape(-1), slope.reshape(-1, spread.shape[-1]))
            rule.update(*whole, spread, models.steps)
            table.value[table.edges], table.m[table.edges], table.v[table.edges] = whole
    models.buffers.update(found.buffers)
    return found.outputs, found.losses
