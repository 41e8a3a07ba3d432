"""Replayed models: the edge's first publication under new numbers, again and again."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene


@final
@dataclass(frozen=True)
class ReplayedModels:
    """Publish what the edge published at first."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace the model by the first one."""
        if scene.first is not None:
            forgery.dense, forgery.rows = scene.first.dense.clone(), [rows.clone() for rows in scene.first.rows]
