"""An attack on the tallies of released id tables: who was there before the crowd, and how many were there?

Every canary is one event with an id of its own, early on. Much later a crowd of known size names all these ids. Neither
whether a row is told then, nor what was counted, may depend much on the one event that came first.
"""

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from alphaedge.audit.bound import guess
from alphaedge.audit.one_run import NoiseOf, OneRun, learning_of
from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import row_threshold
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.state import ModelState
from alphaedge.models.deepfm import deepfm
from alphaedge.simulation.releases import SeededNoise

WAITING: Final = 10  # times that noise goes over the tallies between the canaries and the crowd
CROWD_LOT: Final = 4000  # events
ENOUGH: Final = 1.3  # times what the threshold asks for


def audit_tallies(privacy: Privacy, *, canaries: int, seed: int = 0, noise: NoiseOf | None = None) -> OneRun:
    """Attack the tallies of one id table under these settings, event by event, with a small model."""
    generator = torch.Generator().manual_seed(seed)
    model = deepfm([Field("id", "id", canaries + 1)], dim=2, hidden=(2,))
    learning = learning_of(model, replace(privacy, user=None, participations=1, tables=("id",)), 1)
    mechanism, released = learning.mechanism, learning.start(ModelState.start([model], [0]))
    released.scaled[:] = True  # there is nothing to be scaled but the labels
    coins = torch.rand(canaries, generator=generator) < 0.5
    lots = _lots(canaries, coins, mechanism.tally_every, _crowd(privacy, learning.mechanism.tally_noise))
    drawn = noise or (lambda step: SeededNoise([f"audit/tallies/{seed}/{step}"]))
    for step, (some, counts) in enumerate(lots):
        learning.step(released, torch.tensor([0]), _lot(model, some, counts), drawn(step))
    told = learning.told(released)[0][0, :canaries]
    counted = released.models.tables[0].value[0, :canaries, model.tables[0].width]
    return OneRun(guess([told.double(), counted], coins, privacy.delta), privacy.epsilon, privacy.delta, len(lots))


def _crowd(privacy: Privacy, noise: float) -> int:
    """How many events of an id are told for certain, if one event is not enough to matter."""
    return int(ENOUGH * row_threshold(WAITING + 2, noise=noise, most=1.0, rows=1, delta=privacy.delta)) + 1


def _lots(canaries: int, coins: Tensor, every: int, crowd: int) -> list[tuple[Tensor, Tensor]]:
    """Ids and which of them count: the canaries, some lots without them, the crowd, and lots until noise went over."""
    other = (torch.tensor([canaries]), torch.tensor([True]))
    lots = [(torch.arange(canaries), coins)] + [other] * (WAITING * every - 1)
    ids = torch.arange(canaries).repeat_interleave(crowd)
    lots += [(some, torch.ones_like(some, dtype=torch.bool)) for some in torch.split(ids, CROWD_LOT)]
    return lots + [other] * (-len(lots) % every)


def _lot(model: Model, ids: Tensor, counts: Tensor) -> Lot:
    inputs, rows = compact([ids.unsqueeze(0)], model.tables)
    return Lot.of_events(Batch(tuple(inputs), tuple(rows), torch.ones(1, len(ids)))).where(counts.unsqueeze(0))
