"""Rolling back: when batch after batch has to be undone, the state is to blame, and an earlier one is taken up again.

The new state is a checkpoint like any other, at the end of a round in which nothing was mixed. The feedback since the
old checkpoint counts as passed over: to learn it again would give the same bad state.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from alphaedge.core.links import Ear, Link
from alphaedge.edge.learning.checkpoints import Checkpoints, Progress, pack_state, unpack_state
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.private_state import carry_over
from alphaedge.edge.learning.undo import is_finite

MAX_UNDONE: Final = 3  # batches in a row, before an earlier state is tried
START: Final = "the start"


def last_good(
    learner: Learner, checkpoints: Checkpoints, schema: str, progress: Progress
) -> tuple[str, Learner] | None:
    """The newest state from which the last undone batch can be learned: of a checkpoint, by its name, or the start.

    None if there is none, or if the learner can still learn what it has learned last: then the batches are to blame.
    """
    batch = learner.undone[-1]
    if learner.last_trained is not None and _can_learn(learner, _copy(learner, schema), schema, learner.last_trained):
        return None
    for name, data in _candidates(learner, checkpoints, schema, progress):
        if _can_learn(learner, data, schema, batch):
            found = learner.anew()
            unpack_state(found, data, schema)
            return name, found
    return None


def roll_back(found: Learner, bad: Learner, checkpoints: Checkpoints, schema: str, progress: Progress) -> None:
    """Save a good state as what follows the bad one. Who was excluded stays excluded; peers get all rows anew.

    With privacy, what was released does not go back.
    """
    found.aggregations = bad.aggregations + 1
    if found.private is not None:
        carry_over(found, bad)
    else:
        if not found.publication.number:  # the start has published nothing, and peers may pull from now on
            found.publication = found.snapshot(0)
        found.publication.number = bad.publication.number
        for table in found.tables:  # newer than what peers hold of the bad state, however little they have moved
            table.version[table.version > 0] = bad.publication.number + 1
    for peer, link in bad.links.known.items():
        mine = found.links.known.setdefault(peer, Link(bad.method.aggregation.memory.start))
        mine.tried, mine.excess, mine.missed, mine.absences = link.tried, link.excess, link.missed, link.absences
        mine.exclusions, mine.excluded_until = link.exclusions, link.excluded_until
        mine.weight = mine.weight if link.counts(bad.aggregations) else 0.0
    for peer, ear in bad.links.ears.items():
        heard = found.links.ears.setdefault(peer, Ear())
        heard.agreed, heard.told = ear.agreed, ear.told
    after = msgspec.structs.replace(progress, rollbacks=progress.rollbacks + 1, rolled_back_at=found.aggregations)
    checkpoints.save(found, schema, after)


def _candidates(
    learner: Learner, checkpoints: Checkpoints, schema: str, progress: Progress
) -> Iterator[tuple[str, bytes]]:
    """Earlier states, the newest first; only the start if no round has ended since the last rollback."""
    if progress.rolled_back_at != learner.aggregations:
        yield from checkpoints.saved(schema)
    yield START, _copy(learner.anew(), schema)


def _can_learn(learner: Learner, data: bytes, schema: str, batch: Examples) -> bool:
    trying = learner.anew()
    unpack_state(trying, data, schema)
    return all(is_finite(state) for state in trying.states.values()) and trying.learn(batch)


def _copy(learner: Learner, schema: str) -> bytes:
    return pack_state(learner, schema, Progress())
