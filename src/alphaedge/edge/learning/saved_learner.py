"""The learner of an edge as its newest checkpoint has it, read beside a running edge: without its lock, never writing.

A running edge writes over the oldest checkpoint and removes others, also while they are read. Then the next one counts,
or the folder is looked at again.
"""

import time
from itertools import islice
from pathlib import Path
from typing import Final

from alphaedge.core.gradients import OneAtATime
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.learning.checkpoints import Checkpoints, Progress, unpack_state
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.loop import make_learner
from alphaedge.edge.model import initial_model, model_schema

LOOKS: Final = 10  # at a folder whose checkpoints are replaced while they are read
SECONDS_BETWEEN_LOOKS: Final = 0.2


def read_learner(config: EdgeConfig, folder: Path, older: int = 0) -> tuple[Learner, Progress | None]:
    """The learner at the end of its last round that is on disk, and its progress.

    folder: of the configuration. older: newer checkpoints to pass over. None, and a learner that has learned nothing,
    if there is no checkpoint left that can be read.
    """
    learner = make_learner(config, OneAtATime(initial_model(config)))
    schema, kept = model_schema(config, learner.model), folder / config.data / "checkpoints"
    if not kept.is_dir():
        return learner, None
    checkpoints = Checkpoints(kept)
    for look in range(LOOKS):
        for _, saved in islice(checkpoints.saved(schema), older, None):
            return learner, unpack_state(learner, saved, schema)
        if older or not checkpoints.any(schema):
            break
        if look < LOOKS - 1:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return learner, None
