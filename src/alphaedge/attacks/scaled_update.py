"""Scaled update: the honest direction, taken too far. In a plain mean it outweighs everybody else."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class ScaledUpdate:
    """Publish start + factor (model - start), and rows times the factor."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    factor: float = 10.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor)

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Stretch the model away from the start."""
        forgery.dense = scene.start + self.factor * (forgery.dense - scene.start)
        forgery.rows = [self.factor * rows for rows in forgery.rows]
