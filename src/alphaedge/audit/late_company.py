"""An attack on the rows of released id tables: who was there before the crowd?

Every canary is one event with an id of its own, early on. Much later a crowd names all these ids. Whether, when and as
what a row is told then must not depend on the one event that came first.
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

WAITING: Final = 100  # private steps between the canaries and the crowd
CROWD_LOT: Final = 4000  # events


def audit_rows(privacy: Privacy, *, canaries: int, seed: int = 0, noise: NoiseOf | None = None) -> OneRun:
    """Attack the rows of one id table under these settings, event by event, with a small model."""
    generator = torch.Generator().manual_seed(seed)
    model = deepfm([Field("id", "id", canaries + 1)], dim=2, hidden=(2,))
    learning = learning_of(model, replace(privacy, user=None, participations=1, tables=("id",)), 1)
    mechanism, released = learning.mechanism, learning.start(ModelState.start([model], [0]))
    released.scaled[:] = True  # there is nothing to be scaled but the labels
    start = released.models.tables[0].value[0].clone()
    coins = torch.rand(canaries, generator=generator) < 0.5
    enough = row_threshold(
        8, noise=mechanism.tally_noise, most=mechanism.tally_clip, rows=mechanism.rows, delta=mechanism.delta
    )
    ids = torch.arange(canaries).repeat_interleave(int(1.5 * enough))
    lots = [(torch.arange(canaries), coins)]
    lots += [(torch.tensor([canaries]), torch.tensor([True]))] * WAITING
    lots += [(some, torch.ones_like(some, dtype=torch.bool)) for some in torch.split(ids, CROWD_LOT)]
    drawn = noise or (lambda step: SeededNoise([f"audit/rows/{seed}/{step}"]))
    for step, (some, counts) in enumerate(lots):
        learning.step(released, torch.tensor([0]), _lot(model, some, counts), drawn(step))
    told = learning.told(released)[0][0, :canaries]
    moved = (released.models.tables[0].value[0] - start)[:canaries, : model.tables[0].width].norm(dim=1)
    scores = torch.where(told, moved.clamp(max=1e6), 2e6)
    return OneRun(guess([scores], coins, privacy.delta), privacy.epsilon, privacy.delta, len(lots))


def _lot(model: Model, ids: Tensor, counts: Tensor) -> Lot:
    inputs, rows = compact([ids.unsqueeze(0)], model.tables)
    lot = Lot.of_events(Batch(tuple(inputs), tuple(rows), torch.ones(1, len(ids))))
    return Lot(lot.events, lot.users, counts.unsqueeze(0), units=False)
