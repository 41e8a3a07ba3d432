"""Small models and streams to audit."""

from typing import NamedTuple

import torch
from torch import Tensor

from alphaedge.audit.events import Events
from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.core.privacy.noise import Noise
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp

BATCH = 32
LOTS = 50
NUMBERS = (Field("x", "number", 6),)
SHOP = (Field("user", "id", 400), Field("item", "id", 12), Field("x", "number", 4))


class World(NamedTuple):
    model: Model
    events: Events


def draw(fields: tuple[Field, ...], count: int, seed: int) -> Events:
    generator, inputs = torch.Generator().manual_seed(seed), list[Tensor]()
    for field in fields:
        if field.kind == "number":
            inputs.append(torch.randn(count, field.size, generator=generator) * 3 + 1)
        else:
            inputs.append(torch.randint(0, field.size, (count,), generator=generator))
    chance = torch.sigmoid(inputs[-1].sum(1) / 4 - 1)
    return Events(fields, tuple(inputs), (torch.rand(count, generator=generator) < chance).float(), classes=True)


def numbers(seed: int = 0, lots: int = LOTS) -> World:
    """Numbers alone, and an MLP."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = mlp(NUMBERS, hidden=(16,), loss="bce", normalise=True)
    return World(model, draw(NUMBERS, BATCH * (10 + lots), seed))


def shop(seed: int = 0, lots: int = LOTS) -> World:
    """Users, items and numbers, and a DeepFM with tallies."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = deepfm(SHOP, dim=4, hidden=(8,), normalise=True)
    return World(model, draw(SHOP, BATCH * (10 + lots), seed))


def silence(_: int) -> Noise:
    """Noise that is switched off."""
    return lambda edges, *shape: torch.zeros(len(edges), *shape)


class Quieter:
    """Noise that is weaker than the promise needs."""

    def __init__(self, by: float, seed: int) -> None:
        self.by, self.generator = by, torch.Generator().manual_seed(seed)

    def __call__(self, step: int) -> Noise:
        return lambda edges, *shape: self.by * torch.randn(len(edges), *shape, generator=self.generator)
