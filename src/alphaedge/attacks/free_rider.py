"""A free rider: publishes somebody else's model as its own. It harms nobody, and gives nothing."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene


@final
@dataclass(frozen=True)
class FreeRider:
    """Publish the victim's model, or the start as long as there is none, and claim to have learned it."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace the model by the victim's."""
        if scene.victim is None:
            forgery.dense = scene.start.clone()
            return
        forgery.dense, forgery.rows = scene.victim.dense.clone(), [rows.clone() for rows in scene.victim.rows]
