"""A random model of equal size: nothing that a check of shapes, sizes and finiteness could refuse."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene, noise_like


@final
@dataclass(frozen=True)
class RandomModel:
    """Publish noise with the root mean square of the model, new at every publication."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace parameters and rows by noise."""
        forgery.dense = noise_like(forgery.dense, scene.rng)
        forgery.rows = [noise_like(rows, scene.rng) for rows in forgery.rows]
