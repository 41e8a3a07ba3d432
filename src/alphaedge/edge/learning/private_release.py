"""What a live edge with privacy on publishes in the place of its model (``core.privacy.release``).

Batches wait for their lot in the order in which they were learned. The private steps that they allow are taken when the
edge publishes. Everything that a step reads is in the checkpoint or in the journal, and its noise follows from that, so
a restart takes the same steps with the same noise.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor
from torch.nn import functional as F

from alphaedge.core.batch import Batch, join
from alphaedge.core.compression import Precision
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import may_open
from alphaedge.core.privacy.ledger import Ledger, enter
from alphaedge.core.privacy.lot import Lot
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.noise import Noise
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.release import PrivateLearning
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.state import ModelState
from alphaedge.edge.inputs.lookup import compact_keys
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.id_tables import IdRows
from alphaedge.edge.learning.publication import Publication
from alphaedge.errors import InvalidValue

ONLY = torch.tensor([0])  # a live edge is a stack of one


class Secrets(NamedTuple):
    """What private steps need besides the method. batch_size: events of a batch. noise: that of a lot, by the number
    of its first event and a digest of all that the step reads; the same of both gives the same noise."""

    batch_size: int
    noise: Callable[[int, bytes], Noise]


@final
class PrivateRelease:
    """The released model of one edge, the batches that wait for their lot, and who has taken part.

    records: events of all lots so far. spent: number of the last event of a lot; no earlier one may be in a lot again.
    exhausted: whether a lot was dropped because the budget of all windows is spent.
    """

    def __init__(self, privacy: Privacy, model: Model, secrets: Secrets) -> None:
        self.privacy, self.model, self.secrets = privacy, model, secrets
        gradients = PerExampleGradients(model)
        mechanism = Mechanism.of(privacy, model, gradients.statistics, secrets.batch_size * privacy.lot_batches)
        self.learning = PrivateLearning(gradients, mechanism, privacy.rate)
        self.released = self.learning.start(ModelState.start([model], [0]))
        # Tables of a live edge start without rows, and grow.
        self.released.counts = [counts[:, -1:].clone() for counts in self.released.counts]
        self.released.there = [there[:, -1:].clone() for there in self.released.there]
        self.ledger: Ledger[int] = Ledger()
        self.waiting: list[Examples] = []
        self.records = self.spent = 0
        self.exhausted = False

    @property
    def models(self) -> ModelState:
        """What may be published; its id tables have the numbering of the edge's own."""
        return self.released.models

    @classmethod
    def of(cls, privacy: Privacy, model: Model, secrets: Secrets | None) -> "PrivateRelease":
        """That of an edge which has released nothing yet."""
        if secrets is None:
            raise InvalidValue("secrets", None, "the noise of the edge, for a method with privacy")
        return cls(privacy, model, secrets)

    def start_from(self, started: ModelState) -> None:
        """Start from a model that knows nothing but what peers have published."""
        self.models.dense[0] = started.dense[0]
        for name in self.model.statistics():
            self.models.buffers[name][0] = started.buffers[name][0]

    def add(self, examples: Examples) -> None:
        """Let a batch wait for its lot. One that was in a lot already, before a restart, takes no part again."""
        if examples.first > self.spent and not self.exhausted:
            self.waiting.append(examples)

    @torch.inference_mode()
    def drop(self, table: int, rows: Tensor) -> None:
        """Forget what was counted of rows that now belong to other ids."""
        if len(rows) and table in self.learning.mechanism.tables:
            self._fit()
            place = self.learning.mechanism.tables.index(table)
            self.released.counts[place][0, rows], self.released.there[place][0, rows] = 0.0, 0

    def publish(self, last: Publication, tables: Sequence[IdRows], precision: Precision) -> Publication:
        """Take the private steps that are possible, and publish what they have taught; else the last publication."""
        if not self._take_steps(tables):
            return last
        made = self.snapshot(last.number + 1, last, precision)
        told = self.learning.told(self.released)
        for table, state, may in zip(tables, self.models.tables, told, strict=True):
            table.trained[:] = may[0, :-1]
            table.publish(made.number, precision, table.due(0.0), source=state)
        return made

    def snapshot(self, number: int, last: Publication, precision: Precision) -> Publication:
        """The released model as a publication of that number, after the last one; its rows are in the tables."""
        return Publication.of(self.models, self.model, number, self.records, last.residual, precision)

    def _take_steps(self, tables: Sequence[IdRows]) -> bool:
        stepped = False
        while len(self.waiting) >= (size := self.learning.lot_batches(self.released, 0, self.privacy.lot_batches)):
            lot, self.waiting = self.waiting[:size], self.waiting[size:]
            window = self.privacy.window(max(examples.time for examples in lot))
            if not may_open(self.privacy, self.ledger, window):
                self.waiting, self.exhausted = [], True
                break
            self._fit()
            entered = self._enter(lot, window, tables)
            noise = self.secrets.noise(lot[0].first, self._digest(lot, entered))
            self.learning.step(self.released, ONLY, entered, noise)
            self.records += sum(len(examples.labels) for examples in lot)
            self.spent, stepped = lot[-1].last, True
        return stepped

    def _digest(self, lot: Sequence[Examples], entered: Lot) -> bytes:
        """A digest of all that the private step on a lot reads: its events, and the released model before it."""
        released, found = self.released, hashlib.blake2b(digest_size=32)
        for tensor in (
            *(part for examples in lot for part in (*examples.inputs, examples.labels)),
            *(entered.users, entered.counts, entered.tally_counts),
            *(released.models.dense, *released.models.buffers.values(), released.models.steps),
            *(*released.counts, *released.there, released.scaled),
        ):
            found.update(repr((tensor.dtype, *tensor.shape)).encode())
            found.update(tensor.contiguous().numpy().tobytes())
        return found.digest()

    def _enter(self, lot: Sequence[Examples], window: int, tables: Sequence[IdRows]) -> Lot:
        """The lot as the core sees it, entered in the ledger."""
        events, keys = join([self._batch(examples, tables) for examples in lot], self.model.tables), None
        if self.privacy.user is not None:
            field = self.model.fields.index(self.privacy.user)
            keys = torch.cat([examples.inputs[field].long() for examples in lot]).unsqueeze(0)
        return enter(self.privacy, [self.ledger], [(window, self.learning.period(self.released, 0))], events, keys)

    def _batch(self, examples: Examples, tables: Sequence[IdRows]) -> Batch:
        """A batch as the core sees it; ids whose rows were given up since have none."""
        inputs, keys = compact_keys(self.model, examples.inputs)
        found = [table.rows(some) for table, some in zip(tables, keys, strict=True)]
        rows = [torch.where(some < 0, table.size, some) for table, some in zip(tables, found, strict=True)]
        return Batch(tuple(inputs), tuple(rows), examples.labels.to(self.model.dtype).unsqueeze(0))

    def _fit(self) -> None:
        """Let what is counted of rows grow with the tables; the scratch row stays the last."""
        released = self.released
        for place, t in enumerate(self.learning.mechanism.tables):
            more = self.models.tables[t].storage.shape[2] - released.there[place].shape[1]
            if more > 0:
                released.counts[place] = F.pad(released.counts[place][:, :-1], (0, 0, 0, more + 1))
                released.there[place] = F.pad(released.there[place][:, :-1], (0, more + 1))
