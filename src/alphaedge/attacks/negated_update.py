"""Negated update: as far from the common start as an honest model, in the opposite direction."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene


@final
@dataclass(frozen=True)
class NegatedUpdate:
    """Publish start - (model - start). Rows start near 0, so they change their sign."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Mirror the model at the start."""
        forgery.dense = 2 * scene.start - forgery.dense
        forgery.rows = [-rows for rows in forgery.rows]
