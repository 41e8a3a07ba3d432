"""Checks of a model, on examples."""

from collections.abc import Mapping

import torch
from torch import Tensor

from alphaedge.core.gradients import OneAtATime, choose
from alphaedge.core.model import Model
from alphaedge.core.model_check import as_batch, check_renumbering
from alphaedge.core.state import ModelState
from alphaedge.errors import ModelError


def check_model(model: Model, inputs: Mapping[str, Tensor]) -> str | None:
    """Check a model on examples: ``inputs`` by field name, [B, ...], ids as they are in the data.

    Raises ``ModelError`` if its outputs are not finite, if it uses ids for more than looking up rows, or if no
    parameter gets a gradient. Returns None if edges of this model can be computed all at once, else the reason why
    they are computed one at a time, which is slow.
    """
    missing = [f for f in model.fields if f not in inputs]
    if missing:
        raise ModelError(f"inputs: {', '.join(missing)} missing; the model takes {', '.join(model.fields)}")
    given = [inputs[f] for f in model.fields]
    name = type(model.module).__name__
    if not bool(torch.isfinite(check_renumbering(model, given)).all()):
        raise ModelError(f"{name}: outputs are not finite")
    batch = as_batch(model, given, torch.arange(len(given[0])) % 2)
    state = ModelState.start([model], [0])
    rows = [t.gather(t.flat(r)) for t, r in zip(state.tables, batch.rows, strict=True)]
    args = (state.dense, rows, state.buffers, batch.inputs, batch.labels)
    expected = OneAtATime(model).gradient(*args, training=False)
    slopes = (expected.dense, *expected.rows)
    if not all(bool(torch.isfinite(s).all()) for s in slopes):
        raise ModelError(f"{name}: gradients are not finite")
    if not any(bool((s != 0).any()) for s in slopes):
        raise ModelError(f"{name}: no parameter gets a gradient on these examples")
    return choose(model, *args)[1]
