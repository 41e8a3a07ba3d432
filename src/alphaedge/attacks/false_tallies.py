"""False tallies: an honest model, and lies about what was counted of ids."""

from dataclasses import dataclass
from typing import ClassVar, final

from alphaedge.attacks.attack import Forgery, Scene
from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class FalseTallies:
    """Publish an honest model with tallies turned round, and claimed to be of ``factor`` times as many events."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = False

    factor: float = 5.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor, above=0)

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Turn every tally round."""
        forgery.tallies = [t * t.new_tensor([self.factor, -self.factor][: t.shape[1]]) for t in forgery.tallies]


@final
@dataclass(frozen=True)
class InventedTallies:
    """Publish an honest model with tallies of every id there is: ``events`` of them, all with the lowest labels."""

    flips_labels: ClassVar[bool] = False
    claims_all_rows: ClassVar[bool] = True

    events: float = 1000.0

    def __post_init__(self) -> None:
        check_number("events", self.events, above=0)

    def forge(self, forgery: Forgery, scene: Scene) -> None:
        """Invent every tally."""
        made = [self.events, -self.events]
        forgery.tallies = [t.new_tensor(made[: t.shape[1]]).expand_as(t).clone() for t in forgery.tallies]
