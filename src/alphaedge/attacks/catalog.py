"""The attacks by name. A new one is a file beside this one and a line here."""

from collections.abc import Callable, Mapping
from typing import Final

from alphaedge.attacks.attack import Attack
from alphaedge.attacks.collusion import Collusion
from alphaedge.attacks.drift import Drift
from alphaedge.attacks.false_claims import FalseClaims
from alphaedge.attacks.false_tallies import FalseTallies, InventedTallies
from alphaedge.attacks.flipped_labels import FlippedLabels
from alphaedge.attacks.free_rider import FreeRider
from alphaedge.attacks.negated_update import NegatedUpdate
from alphaedge.attacks.poisoned_copy import PoisonedCopy
from alphaedge.attacks.poisoned_rows import PoisonedRows
from alphaedge.attacks.poisoned_statistics import PoisonedStatistics
from alphaedge.attacks.random_model import RandomModel
from alphaedge.attacks.replayed_models import ReplayedModels
from alphaedge.attacks.scaled_update import ScaledUpdate

ATTACKS: Final[Mapping[str, Callable[[], Attack]]] = {
    "flipped-labels": FlippedLabels,
    "random-model": RandomModel,
    "negated-update": NegatedUpdate,
    "scaled-update": ScaledUpdate,
    "drift": Drift,
    "poisoned-copy": PoisonedCopy,
    "free-rider": FreeRider,
    "collusion": Collusion,
    "false-claims": FalseClaims,
    "poisoned-statistics": PoisonedStatistics,
    "poisoned-rows": PoisonedRows,
    "replayed-models": ReplayedModels,
    "false-tallies": FalseTallies,
    "invented-tallies": InventedTallies,
}
