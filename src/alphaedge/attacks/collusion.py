"""Colluders: random models that recommend each other, so that greedy selection finds more of them."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene
from alphaedge.attacks.random_model import RandomModel


@final
@dataclass(frozen=True)
class Collusion:
    """Publish noise, and announce that all weight is on the accomplices."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace the model by noise, and the announced shares."""
        RandomModel().forge(forgery, scene)
        forgery.shares = {edge: 1 / len(scene.accomplices) for edge in scene.accomplices}
