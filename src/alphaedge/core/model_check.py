"""Checks of a user's model on examples: what would go wrong later, and silently, is found before any work starts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.model import Model
from alphaedge.core.online import predict
from alphaedge.core.state import ModelState
from alphaedge.errors import ModelError


def as_batch(model: Model, inputs: Sequence[Tensor], labels: Tensor) -> Batch:
    """One edge's examples [B, ...], in the order of the model's fields, as a batch."""
    stacked = [x.to(model.dtype).unsqueeze(0) if x.is_floating_point() else x.unsqueeze(0) for x in inputs]
    places, rows = compact(stacked, model.tables)
    return Batch(tuple(places), tuple(rows), labels.to(model.dtype).unsqueeze(0))


def check_renumbering(model: Model, inputs: Sequence[Tensor]) -> Tensor:
    """Outputs [B] of a fresh model; ``ModelError`` if they change when the rows of its id tables are renumbered.

    A forward pass gets only the rows that its batch names, with ids renumbered to match. A module that uses an id for
    anything but a look-up of those rows gives other outputs then.
    """
    batch = as_batch(model, inputs, inputs[0].new_zeros(len(inputs[0])))
    found = predict(ModelState.start([model], [0]), batch, OneAtATime(model))[0]
    if not model.tables:
        return found
    with torch.no_grad():
        model.module.eval()
        whole = [*(x.to(model.dtype) if x.is_floating_point() else x for x in inputs), *model.untold(len(found))]
        plain = model.placed(model.module(*whole).reshape(-1), model.initial_buffers(), whole)
    if not torch.allclose(found, plain, rtol=1e-3, atol=1e-5):
        names = ", ".join(t.name for t in model.tables)
        raise ModelError(
            f"{type(model.module).__name__}: its outputs change when the rows of id table {names} are renumbered; "
            "forward may use an id field only to look up rows of the parameters declared for it"
        )
    return found
