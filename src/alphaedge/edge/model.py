"""The model of a live edge: made from its configuration, and the schema that edges must share to mix."""

import hashlib
from typing import Any

import msgspec
import torch

from alphaedge.core.model import Model
from alphaedge.edge.config import EdgeConfig


def seeded(config: EdgeConfig) -> Model:
    """The model as every edge of a fleet starts it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return config.model.make()


def schema(config: EdgeConfig, model: Model) -> str:
    """What edges must have in common to mix."""
    layout = [(s.name, list(s.shape)) for s in model.dense_layout]
    tables = [(t.name, t.width) for t in model.tables]
    fields = [(f.name, f.kind, f.size if f.kind != "id" else 0) for f in config.model.fields]
    return schema_of({"dense": layout, "tables": tables, "fields": fields, "buffers": list(model.initial_buffers())})


def schema_of(description: Any) -> str:
    """A short name for what two edges must have in common to mix: models, tables and fields alike."""
    return hashlib.blake2b(msgspec.json.encode(description, order="sorted"), digest_size=8).hexdigest()
