"""The learning process: reads the journal, learns batch by batch, hands parameters over, writes checkpoints.

It runs beside the server and gives way to it: lowest priority, one thread. Nothing that happens here can fail a
prediction; if this process dies, the server goes on with the parameters that it has, and this one starts again from its
last checkpoint and the journal.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import torch

from alphaedge.core.gradients import Gradients, OneAtATime
from alphaedge.core.model import Model
from alphaedge.edge.checkpoint import Checkpoints, schema_of
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.exchange import Held, Pull, Request
from alphaedge.edge.features import Features
from alphaedge.edge.journal import Journal
from alphaedge.edge.learner import Examples, Learner
from alphaedge.edge.parameters import Writer
from alphaedge.edge.predictor import hand_over
from alphaedge.edge.wire import Expected, Refused, pack_pull, unpack_request

NAP = 0.02  # seconds between two looks at the journal, when there is nothing to learn


def seeded(config: EdgeConfig) -> Model:
    """The model as every edge of a fleet starts it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return config.model.make()


def schema(config: EdgeConfig, model: Model) -> str:
    """What edges must have in common to mix."""
    layout = [(s.name, list(s.shape)) for s in model.dense_layout]
    tables = [(t.name, t.width) for t in model.tables]
    fields = [(f.name, f.kind, f.size if f.kind != "id" else 0) for f in config.model.fields]
    return schema_of({"dense": layout, "tables": tables, "fields": fields, "buffers": list(model.initial_buffers())})


@final
class Learning:
    """One edge's learning, from its journal to its parameters."""

    def __init__(self, config: EdgeConfig, folder: Path, gradients: Callable[[Model], Gradients] = OneAtATime) -> None:
        data, model = folder / config.data, seeded(config)
        sizes = {f.name: f.size for f in config.model.fields}
        capacities = [sum(sizes[model.fields[f]] for f in table.fields) for table in model.tables]
        self.config, self.size = config, config.model.batch_size
        self.learner = Learner(
            gradients(model),
            config.method.make(),
            config.model.online,
            name=config.edge,
            seed=config.seed,
            capacities=capacities,
        )
        self._features = Features(config.model.fields, b"")  # in the journal ids are keys already
        self._journal = Journal(data / "journal.db", layout=self._features.layout, readonly=True)
        self._checkpoints = Checkpoints(data / "checkpoints")
        self._mark = data / "learned"
        self.schema = schema(config, model)
        self._writer = Writer(data / "parameters", self.schema)
        self.learned, self.wrong = self._checkpoints.restore(self.learner, self.schema)
        while self._step():  # what the journal has since the checkpoint, before anybody predicts from it
            pass
        hand_over(self.learner, self._writer)

    @property
    def due(self) -> bool:
        """Whether an aggregation is next; until it is done nothing more is learned."""
        return self.learner.due

    def step(self) -> bool:
        """Learn the next batch, if all of its outcomes are there, and hand the parameters over."""
        if not self._step():
            return False
        hand_over(self.learner, self._writer)
        return True

    def _step(self) -> bool:
        if self.due:
            return False
        lessons = self._journal.lessons(self.learned, self.size)
        if len(lessons) < self.size:
            return False
        inputs = self._features.tensors(
            self._features.unpack([lesson.features for lesson in lessons]), self.learner.model.fields
        )
        labels = torch.tensor([lesson.label for lesson in lessons], dtype=self.learner.model.dtype)
        self.learner.learn(Examples(inputs, labels))
        self.learned = lessons[-1].number
        return True

    def publish(self) -> None:
        """Begin an aggregation: let others fetch what was learned."""
        self.learner.publish()

    def request(self, peer: str) -> Request:
        """What to ask a neighbour for."""
        return self.learner.request(peer)

    def first_request(self) -> Request:
        """What an edge asks for that knows nothing: the dense part."""
        none = tuple(torch.empty(0, dtype=torch.long) for _ in self.learner.tables)
        return Request(0, none, none)

    def answer(self, data: bytes) -> bytes:
        """What another edge gets that asks for the model."""
        if not self.learner.publication.number:
            raise Refused("nothing is published yet")
        asked = unpack_request(data, self.schema, len(self.learner.tables))
        pull = self.learner.publication.answer(asked, self.learner.tables)
        return pack_pull(pull, self.schema, half=self.config.peers.half)

    def expected(self, request: Request) -> Expected:
        """What an answer to a request must look like."""
        learner = self.learner
        told = {name: learner.fleet.buffers[name][0] for name in learner.model.statistics()}
        rows = [t.value[0, :-1] for t in learner.fleet.tables]
        return Expected(self.schema, learner.fleet.dense[0], told, rows, request)

    @property
    def untaught(self) -> bool:
        """Whether nothing was learned yet, not even from a peer."""
        return not self.learner.revealed and not self._checkpoints.any()

    def bootstrap(self, pull: Pull) -> None:
        """Start from a peer's model."""
        self.learner.bootstrap(pull)
        self._checkpoints.save(self.learner, self.schema, self.learned)
        hand_over(self.learner, self._writer)

    def part_with(self, peers: Sequence[str]) -> None:
        """Drop neighbours that a rule forbids."""
        for peer in peers:
            self.learner.part_with(peer)

    def aggregate(
        self, pulls: Mapping[str, Pull], candidates: Sequence[str], topology: Mapping[str, Mapping[str, float]]
    ) -> dict[str, float]:
        """End an aggregation with the models that were pulled; the shares of the mix."""
        learner = self.learner
        pulls = {peer: pull for peer, pull in pulls.items() if peer in learner.links.neighbours}  # some may be dropped
        for peer, pull in pulls.items():
            learner.held.setdefault(peer, Held(learner.fleet.dense[0], learner.tables)).take(pull, learner.tables)
        shares = learner.aggregate(list(pulls))
        learner.choose(candidates, topology)
        self._checkpoints.save(learner, self.schema, self.learned)
        fresh = self._mark.with_suffix(".part")
        fresh.write_text(str(self.learned))
        os.replace(fresh, self._mark)
        hand_over(learner, self._writer)
        return shares

    def alone(self) -> bool:
        """The next thing to do for an edge without peers; False if there is nothing."""
        if not self.due:
            return self.step()
        self.publish()
        self.aggregate({}, [self.config.edge], {})
        return True


def learned_so_far(folder: Path) -> int:
    """The last lesson that a checkpoint holds: what the journal may forget."""
    try:
        return int((folder / "learned").read_text())
    except (FileNotFoundError, ValueError):
        return 0
