"""Rolling back: when batch after batch has to be undone, the state is to blame, and an earlier one is taken up again.

The new state is a checkpoint like any other, at the end of a round in which nothing was mixed. The feedback since the
old checkpoint counts as passed over: to learn it again would give the same bad state.
"""

from typing import Final

import msgspec

from alphaedge.edge.learning.checkpoints import Checkpoints, Progress, pack_state, unpack_state
from alphaedge.edge.learning.learner import Examples, Learner
from alphaedge.edge.learning.undo import is_finite

MAX_UNDONE: Final = 3  # batches in a row, before an earlier state is tried
START: Final = "start"


def last_good(learner: Learner, checkpoints: Checkpoints, schema: str, batch: Examples) -> tuple[str, Learner] | None:
    """The newest state from which a batch can be learned: of a checkpoint, by its name, or the start.

    None if there is none; then the batch is to blame.
    """
    start = pack_state(learner.anew(), schema, Progress())
    for name, data in (*checkpoints.saved(schema), (START, start)):
        trying, found = learner.anew(), learner.anew()
        for one in (trying, found):
            unpack_state(one, data, schema)
        if all(is_finite(state) for state in trying.states.values()) and trying.learn(batch):
            return name, found
    return None


def roll_back(found: Learner, bad: Learner, checkpoints: Checkpoints, schema: str, progress: Progress) -> None:
    """Save a good state as what follows the bad one. Peers get all of its rows anew."""
    found.aggregations, found.publication.number = bad.aggregations + 1, bad.publication.number
    for table in found.tables:
        table.trained |= table.version > 0
    checkpoints.save(found, schema, msgspec.structs.replace(progress, rollbacks=progress.rollbacks + 1))
