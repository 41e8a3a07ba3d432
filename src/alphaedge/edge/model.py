"""The model of a live edge: its initial parameters, and the schema that edges must share to mix."""

import hashlib

import msgspec
import torch

from alphaedge.core.fields import KEYED
from alphaedge.core.model import Model
from alphaedge.edge.config import EdgeConfig


def initial_model(config: EdgeConfig) -> Model:
    """Make the model with which every edge of a fleet starts."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return config.model.make()


def model_schema(config: EdgeConfig, model: Model) -> str:
    """A short hash of what two edges must have in common to mix: layout of the model, tables and fields."""
    description = {
        "dense": [(s.name, list(s.shape)) for s in model.dense_layout],
        "tables": [(t.name, t.width, t.tallied) for t in model.tables],
        "fields": [(f.name, f.kind, f.size if f.kind not in KEYED else 0) for f in config.model.fields],
        "buffers": list(model.initial_buffers()),
    }
    return hashlib.blake2b(msgspec.json.encode(description, order="sorted"), digest_size=8).hexdigest()
