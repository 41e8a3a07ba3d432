"""False claims: a random model that claims to have learned from more examples than there are."""

from dataclasses import dataclass
from typing import ClassVar, Final, final

from alphaedge.attacks.attack import Forgery, Scene
from alphaedge.attacks.random_model import RandomModel

MAX_RECORDS: Final = 2**53  # the most that the wire format takes


@final
@dataclass(frozen=True)
class FalseClaims:
    """Publish noise with a claim of ``records`` examples."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    records: int = MAX_RECORDS

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Replace the model by noise, and the number of records."""
        RandomModel().forge(forgery, scene)
        forgery.records = self.records
