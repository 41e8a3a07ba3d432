"""Flipped labels: the edge learns the opposite of what its users do, and publishes that honestly."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene


@final
@dataclass(frozen=True)
class FlippedLabels:
    """Learn from flipped labels."""

    flips_labels: ClassVar[bool] = True
    claims_all_rows: ClassVar[bool] = False

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Publish what was learned."""
