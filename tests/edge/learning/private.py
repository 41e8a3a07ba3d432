"""Live edges with privacy on, for tests."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from alphaedge import Dataset, Method, Model
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.online import Online
from alphaedge.core.privacy.noise import Noise
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.private_release import PrivateRelease, Secrets
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.simulation.releases import SeededNoise
from alphaedge.simulation.world import World

from .test_learner import SIZE, Fleet, Pulled


class SimulatedNoise:
    """The noise that the simulator gives an edge, in the numbering of the live edge's id tables."""

    def __init__(self, learner: Learner, world: World, edge: int, first: int) -> None:
        self._learner, self._world, self._edge = learner, world, edge
        self._noise = SeededNoise([f"0/{edge}/{(first - 1) // SIZE}/noise"])
        self._tables = 0  # asked for so far

    def __call__(self, edges: Sequence[int], *shape: int) -> Tensor:
        private = released(self._learner)
        mechanism = private.learning.mechanism
        is_first = bool(mechanism.scale_noise) and not bool(private.released.scaled[0])
        if len(shape) < 2 or is_first:
            return self._noise([0], *shape)
        t = mechanism.tables[self._tables % len(mechanism.tables)]
        self._tables += 1
        named = self._world.batches.own_rows[t].named[self._edge].tolist()
        drawn, found = self._noise([0], len(named), *shape[1:])[0], torch.zeros(shape)
        place = {number: row for row, number in enumerate(named[:-1])}
        for row, key in enumerate(self._learner.tables[t].numbering.keys_by_row()):
            found[row] = drawn[place[key]]
        return found.unsqueeze(0)


def released(learner: Learner) -> PrivateRelease:
    assert learner.private is not None
    return learner.private


class PrivateFleet(Fleet):
    """Edges with privacy on. They ask each other for everything."""

    def __init__(
        self, data: Dataset, make: Any, method: Method, online: Online, noise: Callable[[Learner, int], Noise]
    ) -> None:
        self.noise = noise
        super().__init__(data, make, method, online)

    def learner(self, name: str) -> Learner:
        model: Model = self.make()
        model.module.load_state_dict(self.start)
        rows = [self.capacity or table.rows for table in model.tables]
        made: Learner = Learner(
            OneAtATime(model),
            self.method,
            self.online,
            name=name,
            seed=0,
            capacities=rows,
            secrets=Secrets(SIZE, lambda first, _: self.noise(made, first)),
        )
        return made

    def examples(self, edge: int, number: int) -> Examples:
        plain = super().examples(edge, number)
        time = float(self.data.streams[edge].times[(number + 1) * SIZE - 1])
        return plain._replace(first=number * SIZE + 1, last=(number + 1) * SIZE, time=time)

    def pull(self, me: Learner) -> Pulled:
        assert not me.links.others, "nobody is heard beside the neighbours"
        ready = [j for j in me.links.neighbours if self.edges[j].publication.number > 0]
        return {j: everything(self.edges[j], me.links.known[j].publication) for j in ready}, {}


def everything(learner: Learner, holds: int = 0) -> PulledModel:
    return learner.publication.answer_everything(holds, learner.tables, private=learner.private is not None)
