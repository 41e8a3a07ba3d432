"""An audit in one run: canaries are in or out by fair coins, and the auditor guesses the coins from what is released.

A canary's score is how much likelier what its lots have told is with it than without, were the noise what the promise
needs: with r what a step told beyond what everybody else adds, and c what the canary would add, in units of the noise,

    score = sum over its lots of  <r, c> - |c|^2 / 2

which is the best test there is between the two (Neyman and Pearson). Other canaries of a lot count as half there. Where
noise is missing, another score is better, which takes the canaries of a lot apart: the least squares fit of r by all c.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.audit import reference
from alphaedge.audit.bound import Guesses, guess
from alphaedge.audit.canaries import NOBODY, Planted, plant
from alphaedge.audit.events import Events
from alphaedge.core.model import Model
from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.noise import Noise
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.release import PrivateLearning, Released
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.privacy.statistics import FIRST_LOT_BATCHES
from alphaedge.core.state import ModelState
from alphaedge.simulation.releases import SeededNoise

RIDGE: Final = 1e-6  # so that equal canaries are no trouble
NoiseOf = Callable[[int], Noise]  # of the private step with that number
Report = Callable[[float], None]  # the share that is done


@final
class OneRun(NamedTuple):
    """What the audit in one run has found. promised: the epsilon that was claimed, at ``delta``."""

    guesses: Guesses
    promised: float
    delta: float
    steps: int

    @property
    def broken(self) -> bool:
        """Whether more was observed than promised."""
        return self.guesses.epsilon > self.promised


def learning_of(model: Model, privacy: Privacy, batch_size: int) -> PrivateLearning:
    """How an edge's released model learns, as in a simulation."""
    gradients = PerExampleGradients(model)
    size = batch_size * privacy.lot_batches
    return PrivateLearning(gradients, Mechanism.of(privacy, model, gradients.statistics, size), privacy.rate)


def lot_sizes(learning: PrivateLearning, privacy: Privacy, batch_size: int) -> tuple[int, int]:
    """Events of the first lot, which teaches scales, 0 if there is none; and of every other."""
    first = max(privacy.lot_batches, FIRST_LOT_BATCHES) if learning.mechanism.scale_noise > 0 else 0
    return first * batch_size, privacy.lot_batches * batch_size


def audit_in_one_run(
    model: Model,
    events: Events,
    privacy: Privacy,
    *,
    batch_size: int,
    canaries: int,
    seed: int = 0,
    noise: NoiseOf | None = None,
    report: Report = lambda _: None,
) -> OneRun:
    """Audit the promise of ``privacy`` for a model on the events of one edge.

    noise: what private steps draw, by their number; the default is what a simulation draws.
    """
    learning = learning_of(model, privacy, batch_size)
    first, size = lot_sizes(learning, privacy, batch_size)
    planted = plant(events, privacy, canaries=canaries, first=first, size=size, seed=seed)
    drawn = noise or (lambda step: SeededNoise([f"audit/{seed}/{step}"]))
    released = learning.start(ModelState.start([model], [0]))
    scores, ledger = torch.zeros(2, canaries, dtype=torch.float64), Ledger[int]()
    ledger.open(0)
    for step, which in enumerate(planted.lots):
        _step(learning, released, planted, which, privacy, ledger, drawn(step), scores)
        report((step + 1) / len(planted.lots))
    found = guess(list(scores), planted.coins, privacy.delta)
    return OneRun(found, privacy.epsilon, privacy.delta, len(planted.lots))


def _step(
    learning: PrivateLearning,
    released: Released,
    planted: Planted,
    which: Tensor,
    privacy: Privacy,
    ledger: Ledger[int],
    noise: Noise,
    scores: Tensor,
) -> None:
    """One private step, and what it adds to the scores of the canaries in its lot."""
    model, mechanism, here = learning.gradients.model, learning.mechanism, torch.tensor([0])
    events = planted.events.batch(model, which.unsqueeze(0))
    canary, units = planted.canary[which], planted.units[which]
    present = (canary == NOBODY) | planted.coins[canary]
    if privacy.user is None:
        lot, allowed = Lot.of_events(events).where(present.unsqueeze(0)), torch.ones_like(present)
    else:
        allowed, in_tallies = torch.tensor(ledger.admit(privacy, units.tolist())).unbind(0)
        lot = Lot.of_users(events, units.unsqueeze(0), allowed.unsqueeze(0), in_tallies.unsqueeze(0))
        lot = lot.where(present.unsqueeze(0))
    scaled = mechanism.scale_noise == 0 or bool(released.scaled[0])
    before = released.models.copy()
    learning.step(released, here, lot, noise)
    if not scaled or bool((canary == NOBODY).all()):
        return
    number = torch.unique(units, return_inverse=True)[1]
    added = reference.added(model, learning.gradients.norms, before, events, number, mechanism)
    told = reference.told(learning.gradients.norms, before, released.models, len(which))
    each, rest = added.joined(mechanism).double(), told.joined(mechanism).double()
    counted = torch.zeros(len(each), dtype=torch.bool)
    counted[number[(canary == NOBODY) & present & allowed]] = True
    rest = rest - each[counted].sum(0)
    canaries = torch.unique(canary[canary != NOBODY])
    own = each[torch.stack([number[canary == one][0] for one in canaries])]
    products = own @ own.mT
    lengths = products.diagonal()
    others = (products.sum(1) - lengths) / 2
    scores[0, canaries] += own @ rest - others - lengths / 2
    weak = RIDGE * lengths.mean() * torch.eye(len(own), dtype=own.dtype)
    scores[1, canaries] += torch.linalg.solve(products + weak, own @ rest)
