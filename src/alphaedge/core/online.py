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
from alphaedge.core.gradients import Gradient, Gradients
from alphaedge.core.labels import LABELS, LEVEL, mean_so_far, standardise
from alphaedge.core.model import Model
from alphaedge.core.optimizer import Optimizer
from alphaedge.core.ridge import Ridge, step
from alphaedge.core.rule_check import check_rule
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.state import ModelState, TableState
from alphaedge.core.tally import COLUMNS, count, tell, unexplained
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
    rows = [t.gather(t.flat(r)) for t, r in zip(models.tables, batch.rows, strict=True)]
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
    if LABELS in models.buffers:
        _count(models, batch, gradients.model, first[0])
    return first


def _count(models: ModelState, batch: Batch, model: Model, outputs: Tensor) -> None:
    """Add the batch to what is known of labels and ids; the model has learned from it by what was known before."""
    before, known = models.buffers[LABELS], model.loss.inverse(batch.labels)
    labels, models.buffers[LABELS] = standardise(before, model.changes(models.buffers, batch.inputs, batch.labels))
    if model.last is not None:
        models.buffers[LEVEL] = mean_so_far(models.buffers[LEVEL], before, known)
    for table, layout, rows in zip(models.tables, model.tables, batch.rows, strict=True):
        if layout.tallied:
            own = table.value.view(-1, table.value.shape[2])[:, table.width : table.width + COLUMNS]
            flat = table.flat(rows)
            told = tell(table.gather(flat), table.width)[..., 0] if model.ridge else None
            for field in layout.fields:
                place, counted = batch.inputs[field], labels
                if told is not None:
                    unit = torch.where(before[:, 0] > 0, model.loss.centre(before)[1], 0)
                    counted = unexplained(known - outputs, unit, told.gather(1, place), labels)
                count(own, [flat.view(rows.shape).gather(1, place)], counted)


def _step(models: ModelState, batch: Batch, gradients: Gradients, online: Online) -> tuple[Tensor, Tensor]:
    rule, steps = online.for_rows, models.steps
    places = [t.flat(r) for t, r in zip(models.tables, batch.rows, strict=True)]
    taken = [t.take(p) for t, p in zip(models.tables, places, strict=True)]
    rows = [some[0] for some in taken]
    found = gradients.gradient(models.dense, rows, models.buffers, batch.inputs, batch.labels)
    if gradients.model.centred:
        found = _where_labels_are_known(found, models.buffers[LABELS])
    steps += 1
    solved = _solve(gradients.model, models, found, batch)
    online.optimizer.update(models.dense, models.dense_m, models.dense_v, found.dense, steps)
    if solved is not None:
        ridge, weights = solved
        ridge.weights(models.dense).copy_(weights)
    for table, batch_rows, place, some, slope in zip(models.tables, batch.rows, places, taken, found.rows, strict=True):
        if rule.lazy_rows:
            parameters = table.parameters(some)
            value, m, v = parameters.unbind(0)
            rule.update(value, m, v, slope, steps)
            table.put_parameters(place, some, parameters)
        else:
            _move_every_row(table, batch_rows, slope, rule, steps)
    models.buffers.update(found.buffers)
    return found.outputs, found.losses


def _solve(model: Model, models: ModelState, found: Gradient, batch: Batch) -> tuple[Ridge, Tensor] | None:
    """The weights [k, F] of the model's ridge after the batch, if it has one."""
    ridge = model.ridge
    if ridge is None:
        return None
    _, unit = model.loss.centre(models.buffers[LABELS])
    moves = step(found.buffers[ridge.gram], ridge.weights(found.dense), unit, batch.labels.shape[1])
    return ridge, ridge.weights(models.dense) + moves


def _where_labels_are_known(found: Gradient, statistics: Tensor) -> Gradient:
    """No gradient for edges without labels so far: how far off they are says nothing but where labels lie."""
    known = (statistics[:, :1] > 0).to(found.dense.dtype)
    return found._replace(dense=found.dense * known, rows=tuple(rows * known.unsqueeze(2) for rows in found.rows))


def _move_every_row(table: TableState, rows: Tensor, slope: Tensor, rule: Optimizer, steps: Tensor) -> None:
    """One step of whole tables, with gradient zero for the rows that the batch does not name."""
    everybody = torch.arange(len(table.edges), device=rows.device)
    in_place = table.storage.shape[1] == len(everybody) and torch.equal(table.edges, everybody)
    whole = table.storage if in_place else table.storage[:, table.edges]
    parameters = table.parameters(whole)
    value, m, v = parameters.unbind(0)
    spread = torch.zeros_like(value)
    local = (everybody.unsqueeze(1) * spread.shape[1] + rows).view(-1)
    spread.view(-1, spread.shape[-1]).index_add_(0, local, slope.reshape(-1, spread.shape[-1]))
    rule.update(value, m, v, spread, steps)
    if not in_place or parameters is not whole:
        table.storage[:, table.edges, :, : table.width] = parameters
