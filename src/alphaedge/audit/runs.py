"""Several runs of one edge side by side, each on a part of its events: what the edge would have published."""

from typing import NamedTuple, final

import torch
from torch import Tensor, vmap

from alphaedge.audit.canaries import cut
from alphaedge.audit.events import Events
from alphaedge.audit.one_run import learning_of, lot_sizes
from alphaedge.core.gradients import Gradients, choose
from alphaedge.core.model import Model
from alphaedge.core.online import Online, learn, predict
from alphaedge.core.privacy.ledger import Ledger
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.state import ModelState
from alphaedge.simulation.releases import SeededNoise


@final
class Published(NamedTuple):
    """What k runs have published in the end. members: [k, N], which events each has learned from.

    told: per id table [k, rows + 1], the rows that leave.
    """

    models: ModelState
    members: Tensor
    told: list[Tensor]


def gradients_of(model: Model, events: Events) -> Gradients:
    """What computes the model's outputs and plain gradients."""
    state, batch = ModelState.start([model], [0]), events.batch(model, torch.arange(2).unsqueeze(0))
    rows = [t.gather(t.flat(r)) for t, r in zip(state.tables, batch.rows, strict=True)]
    return choose(model, state.dense, rows, state.buffers, batch.inputs, batch.labels)[0]


def plain_runs(gradients: Gradients, online: Online, events: Events, members: Tensor, batch_size: int) -> Published:
    """Runs of an edge that publishes the model that it trains. members: [k, N], as many events in each run."""
    model, runs = gradients.model, len(members)
    models = ModelState.start([model], [0] * runs)
    which = members.nonzero()[:, 1].view(runs, -1)
    told = [t.value.new_zeros(t.value.shape[:2], dtype=torch.bool) for t in models.tables]
    for start in range(0, which.shape[1] - batch_size + 1, batch_size):
        batch = events.batch(model, which[:, start : start + batch_size])
        learn(models, batch, gradients, online)
        for flags, rows in zip(told, batch.rows, strict=True):
            flags.scatter_(1, rows, True)
            flags[:, -1] = False
    learned = torch.zeros_like(members)
    learned.scatter_(1, which[:, : which.shape[1] // batch_size * batch_size], True)
    return Published(models, learned, told)


def private_runs(
    model: Model, privacy: Privacy, events: Events, members: Tensor, batch_size: int, seed: int
) -> Published:
    """Runs of an edge that publishes a released model; all in one window."""
    learning, runs = learning_of(model, privacy, batch_size), len(members)
    released, everybody = learning.start(ModelState.start([model], [0] * runs)), torch.arange(runs)
    ledgers = [Ledger[int]() for _ in range(runs)]
    learned = torch.zeros_like(members)
    for step, which in enumerate(cut(len(events), *lot_sizes(learning, privacy, batch_size))):
        batch = events.batch(model, which.expand(runs, -1))
        counts = members[:, which]
        if privacy.user is None:
            lot = Lot.of_events(batch).where(counts)
        else:
            users = events.users(privacy.user)[which]
            admitted = torch.tensor([ledger.admit(privacy, users.tolist()) for ledger in ledgers])
            lot = Lot.of_users(batch, users.expand(runs, -1), *admitted.unbind(1)).where(counts)
            counts = lot.counts
        noise = SeededNoise([f"audit/{seed}/{run}/{step}" for run in range(runs)])
        learning.step(released, everybody, lot, noise)
        learned[:, which] = counts
    return Published(released.models, learned, learning.told(released))


def judged(gradients: Gradients, published: Published, events: Events) -> tuple[Tensor, Tensor]:
    """The loss of each run on each event, [k, N], and how sure it is of the label, without bounds (logit-scaled)."""
    model, runs = gradients.model, len(published.members)
    batch = events.batch(model, torch.arange(len(events)).expand(runs, -1))
    outputs = predict(published.models, batch, gradients)
    single = vmap(vmap(lambda o, y: model.loss.function(o[None], y[None])))
    losses: Tensor = single(outputs, batch.labels)
    return losses, outputs * (2 * batch.labels - 1) if events.classes else -losses.clamp(min=1e-9).log()
