"""Callers of edges that are killed at random moments, and what must be left in the end."""

import itertools
import os
import random
import signal
from dataclasses import dataclass, field
from typing import final

from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.learned_mark import read_learned_mark

from .processes import Edge, events, send, tell, wait_for


@final
@dataclass
class Caller:
    """Asks an edge for predictions and tells it labels, some of them late and all of them in disorder."""

    edge: Edge
    rng: random.Random
    acknowledged: dict[int, float] = field(default_factory=dict)
    waiting: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        some = (events(1000, self.rng.getrandbits(30)) for _ in itertools.count())
        self._stream = itertools.chain.from_iterable(some)

    def call(self) -> None:
        """Request a few predictions, and tell half of the labels that are known by now."""
        self.waiting += send(self.edge, [next(self._stream) for _ in range(self.rng.randint(1, 25))])
        self.rng.shuffle(self.waiting)
        half = len(self.waiting) // 2
        some, self.waiting = self.waiting[:half], self.waiting[half:]
        self._tell(some)

    def finish(self, period: int) -> None:
        """Tell the rest, and wait until the learner has caught up. period: examples of one round."""
        some, self.waiting = self.waiting, []
        self._tell(some)
        wanted = len(self.acknowledged) // period * period
        wait_for(lambda: read_learned_mark(self.edge.folder / "data").newest >= wanted, "the learner to catch up")

    def check_journal(self) -> None:
        """All that was acknowledged is in the journal of the edge, once, and nothing else."""
        journal = Journal(self.edge.folder / "data" / "journal.db")
        labels = dict(journal._db.execute("select prediction, label from feedback"))
        journal.close()
        assert labels == self.acknowledged

    def _tell(self, some: list[tuple[int, float]]) -> None:
        if some:
            assert tell(self.edge, some)["accepted"] == len(some)
            self.acknowledged |= dict(some)


def kill_one(edge: Edge, rng: random.Random) -> None:
    """Kill the server of an edge, its learner or both with SIGKILL, and start what does not start by itself."""
    which = rng.choice(["server", "learner", "both"])
    if which in ("learner", "both"):
        for learner in edge.learners():
            os.kill(learner, signal.SIGKILL)
    if which in ("server", "both"):
        edge.kill()
        edge.start()
