"""The learning process: reads the journal, learns batch by batch, hands parameters over, writes checkpoints.

It runs beside the server and gives way to it: lowest priority, one thread. Nothing that happens here can fail a
prediction; if this process dies, the server goes on with the parameters that it has, and this one starts again from its
last checkpoint and the journal.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import final

import torch

from alphaedge.core.gradients import Gradients, OneAtATime
from alphaedge.core.model import Model
from alphaedge.edge.checkpoint import Checkpoints, schema_of
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.features import Features
from alphaedge.edge.journal import Journal
from alphaedge.edge.learner import Examples, Learner
from alphaedge.edge.parameters import Writer
from alphaedge.edge.predictor import hand_over

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
        self._journal = Journal(data / "journal.db", readonly=True)
        self._checkpoints = Checkpoints(data / "checkpoints")
        self._writer = Writer(data / "parameters")
        self._mark = data / "learned"
        self.schema = schema(config, model)
        self.learned, self.wrong = self._checkpoints.restore(self.learner, self.schema)
        self._catch_up()
        hand_over(self.learner, self._writer)

    def _catch_up(self) -> None:
        """Learn what the journal has since the checkpoint, before anybody predicts from it."""
        while self._step():
            pass

    def step(self) -> bool:
        """Learn the next batch, if all of its outcomes are there, and hand the parameters over."""
        if not self._step():
            return False
        hand_over(self.learner, self._writer)
        return True

    def _step(self) -> bool:
        lessons = self._journal.lessons(self.learned, self.size)
        if len(lessons) < self.size:
            return False
        inputs = self._features.tensors(
            self._features.unpack([lesson.features for lesson in lessons]), self.learner.model.fields
        )
        labels = torch.tensor([lesson.label for lesson in lessons], dtype=self.learner.model.dtype)
        self.learner.learn(Examples(inputs, labels))
        self.learned = lessons[-1].number
        if self.learner.due:
            self._aggregate()
        return True

    def _aggregate(self) -> None:
        self.learner.publish()
        self.learner.aggregate([])
        self.learner.choose([self.config.edge], {})
        self._checkpoints.save(self.learner, self.schema, self.learned)
        fresh = self._mark.with_suffix(".part")
        fresh.write_text(str(self.learned))
        os.replace(fresh, self._mark)


def learned_so_far(folder: Path) -> int:
    """The last lesson that a checkpoint holds: what the journal may forget."""
    try:
        return int((folder / "learned").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def main(path: Path) -> None:
    """Learn until told to stop."""
    torch.set_num_threads(1)
    os.nice(10)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    learning = Learning(load(path), path.parent)
    for wrong in learning.wrong:
        sys.stderr.write(f"checkpoint refused: {wrong}\n")
    parent = os.getppid()
    while not stop.is_set() and os.getppid() == parent:
        if not learning.step():
            stop.wait(NAP)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
