"""Poisoned statistics: finite, and so large that a model that starts from them never recovers."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from alphaedge.attacks.attack import Forgery, Scene


@final
@dataclass(frozen=True)
class PoisonedStatistics:
    """Publish running statistics of ``value`` with an honest model."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    value: float = 1e30

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace every statistic that has a fraction; counts stay as they are."""
        forgery.statistics = {
            name: torch.full_like(value, self.value) if value.is_floating_point() else value
            for name, value in forgery.statistics.items()
        }
