"""Rules and methods as users write them: outside the package, named by import paths (``tests.own_rules:Median``)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from alphaedge import Everybody, Method
from alphaedge.core.aggregation import Mixing, PeerMemory, Weights, take_part
from alphaedge.core.selection import P, View


@dataclass(frozen=True)
class Familiar:
    """Weighs a model by the rounds in which it took part, which the framework keeps for it."""

    uses_peers: ClassVar[bool] = True
    memory: ClassVar[PeerMemory] = PeerMemory(numbers={"seen": 0.0})

    weight_batches: int = 1

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        seen = weights.numbers["seen"] + take_part(mixing.present)
        return Weights(1 + seen, {"seen": seen})

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        mixing.weighted_mean(shares)


@dataclass(frozen=True)
class Median:
    """Takes the median of each number; of an even count the lower of the two in the middle."""

    uses_peers: ClassVar[bool] = True
    weight_batches: ClassVar[int] = 1
    memory: ClassVar[PeerMemory] = PeerMemory()

    def weigh(self, mixing: Mixing, weights: Weights) -> Weights:
        return Weights(torch.ones_like(weights.raw))

    def mix(self, mixing: Mixing, shares: Tensor) -> None:
        mixing.coordinatewise(lambda values: values.nanmedian(1).values)


@dataclass(frozen=True)
class NextInLine:
    """Chooses the edges that come after one's own name, round and round."""

    peers: int = 2
    every: int = 1

    def first(self, edge: P, candidates: Sequence[P], rng: random.Random) -> list[P]:
        others = sorted(set(candidates) - {edge})
        return [*(j for j in others if j > edge), *(j for j in others if j < edge)][: self.peers]

    def choose(self, view: View[P], rng: random.Random) -> list[P]:
        return self.first(view.edge, view.candidates, rng)


@dataclass(frozen=True)
class SignDescent:
    """p <- p - rate * sign(g)."""

    lazy_rows: ClassVar[bool] = True

    rate: float = 0.01

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        value.sub_(gradient.sign(), alpha=self.rate)

    def coast(
        self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Tensor | None = None
    ) -> None:
        pass


def familiar(**changes: Any) -> Method:
    """Everybody's models, weighed by the rounds that they took part in."""
    return Method(**{"aggregation": Familiar(), "selection": Everybody()} | changes)


def median(**changes: Any) -> Method:
    """The median of everybody's models."""
    return Method(**{"aggregation": Median(), "selection": Everybody()} | changes)


def needs_an_argument(name: str) -> Method:
    raise AssertionError


NO_RULE = 3
