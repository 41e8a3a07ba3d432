"""Slow drift: honest at first, and at every publication a little further off, always in the same direction."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from alphaedge.attacks.attack import Forgery, Scene, noise_like
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Drift:
    """Publish the model plus number x step times its size, along a fixed random direction."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    step: float = 0.02

    def __post_init__(self) -> None:
        check_number("step", self.step, low=0)

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Move the dense part; the rows are as learned."""
        direction = torch.Generator().manual_seed(1)  # the same at every publication, and for every accomplice
        forgery.dense = forgery.dense + scene.number * self.step * noise_like(forgery.dense, direction)
