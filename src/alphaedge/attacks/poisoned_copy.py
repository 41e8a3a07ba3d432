"""A copy of the victim with a poisoned part: most of it is as good as the victim's own model."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from alphaedge.attacks.attack import Forgery, Scene, noise_like
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class PoisonedCopy:
    """Publish the victim's model with a ``part`` of it replaced by noise that is ``size`` times as large."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    part: float = 0.1
    size: float = 3.0

    def __post_init__(self) -> None:
        check_number("part", self.part, low=0, high=1)
        check_number("size", self.size, low=0)

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Copy the victim, then poison a part that is drawn anew each time."""
        source = scene.victim or forgery
        forgery.dense = self._poison(source.dense.unsqueeze(1), scene).squeeze(1)
        forgery.rows = [self._poison(rows, scene) for rows in source.rows]

    def _poison(self, values: Tensor, scene: Scene) -> Tensor:
        chosen = torch.rand(len(values), generator=scene.rng, device=scene.rng.device).to(values.device) < self.part
        return torch.where(chosen.unsqueeze(1), self.size * noise_like(values, scene.rng), values)
