"""Private publication in a simulation: what edges with privacy on publish in the place of their models."""

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from alphaedge.core.batch import join
from alphaedge.core.model import Model
from alphaedge.core.privacy.accountant import may_open
from alphaedge.core.privacy.ledger import Ledger, enter
from alphaedge.core.privacy.lot import users_of
from alphaedge.core.privacy.mechanism import Mechanism
from alphaedge.core.privacy.noise import normal, pairs
from alphaedge.core.privacy.per_example import PerExampleGradients
from alphaedge.core.privacy.release import PrivateLearning
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.state import ModelState
from alphaedge.simulation.batches import Batches

MAX_PRODUCTS: Final = 8_000_000  # inner products of single gradients that are there at once
FEW_PAIRS: Final = 1_000  # fewer numbers take less time one by one


@final
class Revealed(NamedTuple):
    """An edge at its publication: its first batch, the newest that is revealed, and when each of its batches happened.

    name: of the edge and its run, by which its noise is drawn.
    """

    edge: int
    first: int
    newest: int
    times: Tensor
    name: str


@final
class SeededNoise:
    """Noise by name, the same whatever else runs beside it. Whoever knows the name can predict it."""

    def __init__(self, names: Sequence[str]) -> None:
        seeds = [random.Random(name).getrandbits(63) for name in names]
        self._generators = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]

    def __call__(self, edges: Sequence[int], *shape: int) -> Tensor:
        """See ``core.privacy.noise.Noise``."""
        generators, wanted = [self._generators[edge] for edge in edges], pairs(shape)
        if wanted < FEW_PAIRS:
            return torch.stack([torch.from_numpy(own.standard_normal(shape)) for own in generators])
        uniform = np.empty((len(generators), 2, wanted))
        for own, numbers in zip(generators, uniform, strict=True):
            own.random(out=numbers)
        np.subtract(1, uniform[:, 0], out=uniform[:, 0])  # from above 0
        return normal(uniform, *shape)


@final
class Releases:
    """The released models of all edges of a world, and who has taken part in them.

    models: initial ones. batches: of all edges.
    """

    def __init__(self, privacy: Privacy, model: Model, models: ModelState, batches: Batches) -> None:
        self.privacy, self._batches = privacy, batches
        gradients = PerExampleGradients(model)
        self._lot_size = batches.size * privacy.lot_batches
        mechanism = Mechanism.of(privacy, model, gradients.statistics, self._lot_size)
        self.learning = PrivateLearning(gradients, mechanism, privacy.rate)
        self.released = self.learning.start(models)
        self.ledgers: list[Ledger[int]] = [Ledger() for _ in range(len(models))]
        self.done = [0] * len(models)  # batches of each edge that were in a lot

    @property
    def models(self) -> ModelState:
        """What may be published."""
        return self.released.models

    def records(self) -> Tensor:
        """Events of all lots so far, [n]: they are as public as the number of publications."""
        return torch.tensor(self.done, device=self.models.device) * self._batches.size

    def told(self) -> list[Tensor]:
        """Which rows of each id table may be published, [n, rows + 1]."""
        return self.learning.told(self.released)

    def step(self, edges: Sequence[Revealed]) -> list[int]:
        """Let edges take private steps on the lots that were revealed since their last ones; those that did."""
        per_edge = self._lot_size * (self._lot_size if self.privacy.user else 1)
        at_once, stepped = max(1, MAX_PRODUCTS // per_edge), set[int]()
        while ready := [one for one in edges if self._revealed(one) >= self._wanted(one) and self._may(one)]:
            for batches in sorted({self._wanted(one) for one in ready}):
                some = [one for one in ready if self._wanted(one) == batches]
                for start in range(0, len(some), at_once):
                    self._step(some[start : start + at_once], batches)
                stepped |= {one.edge for one in some}
        return sorted(stepped)

    def _revealed(self, one: Revealed) -> int:
        """Batches of an edge that are in no lot yet."""
        return one.newest + 1 - one.first - self.done[one.edge]

    def _window(self, one: Revealed) -> int:
        """The window of an edge's next lot: that of its newest batch."""
        last = one.first + self.done[one.edge] + self._wanted(one) - 1
        return self.privacy.window(float(one.times[last]))

    def _may(self, one: Revealed) -> bool:
        """Whether an edge's next lot is within the budget of all windows."""
        return may_open(self.privacy, self.ledgers[one.edge], self._window(one))

    def _wanted(self, one: Revealed) -> int:
        """Batches of an edge's next lot."""
        return self.learning.lot_batches(self.released, one.edge, self.privacy.lot_batches)

    def _step(self, edges: Sequence[Revealed], batches: int) -> None:
        which = torch.tensor([one.edge for one in edges], device=self.models.device)
        first = torch.tensor([one.first + self.done[one.edge] for one in edges], device=self.models.device)
        parts = [self._batches.get(which, first + number) for number in range(batches)]
        model, user = self.learning.gradients.model, self.privacy.user
        events = join(parts, model.tables)
        users = None if user is None else users_of(events, model, user)
        at = [(self._window(one), self.learning.period(self.released, one.edge)) for one in edges]
        lot = enter(self.privacy, [self.ledgers[one.edge] for one in edges], at, events, users)
        noise = SeededNoise([f"{one.name}/{self.done[one.edge]}/noise" for one in edges])
        self.learning.step(self.released, which, lot, noise)
        for one in edges:
            self.done[one.edge] += batches

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """What a step moves besides the models, by name."""
        for t, (counts, there) in enumerate(zip(self.released.counts, self.released.there, strict=True)):
            yield f"released.counts.{t}", counts
            yield f"released.there.{t}", there
        yield "released.scaled", self.released.scaled
