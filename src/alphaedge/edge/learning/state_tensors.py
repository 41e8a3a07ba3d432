"""A model of an edge as the tensors of a checkpoint."""

from collections.abc import Mapping

import torch
from torch import Tensor

from alphaedge.core.state import ModelState


def state_tensors(who: str, state: ModelState) -> dict[str, Tensor]:
    """A model with the state of its training, by name."""
    found = {f"{who}.dense": state.dense, f"{who}.m": state.dense_m, f"{who}.v": state.dense_v}
    found[f"{who}.steps"] = state.steps
    found |= {f"{who}.buffer.{name}": buffer for name, buffer in state.buffers.items()}
    for t, rows in enumerate(state.tables):
        found |= {f"{who}.{t}.value": rows.value, f"{who}.{t}.m": rows.m, f"{who}.{t}.v": rows.v}
    return found


def load_state(who: str, state: ModelState, tensors: Mapping[str, Tensor]) -> None:
    """Make a model what it was, in place."""
    state.dense, state.dense_m, state.dense_v = (tensors[f"{who}.{name}"] for name in ("dense", "m", "v"))
    state.steps = tensors[f"{who}.steps"]
    state.buffers = {name: tensors[f"{who}.buffer.{name}"] for name in state.buffers}
    for t, rows in enumerate(state.tables):
        rows.storage = torch.stack([tensors[f"{who}.{t}.{name}"] for name in ("value", "m", "v")])
