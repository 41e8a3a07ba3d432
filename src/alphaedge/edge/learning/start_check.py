"""Whether a model of peers that an edge has started from is of any use."""

from collections.abc import Sequence
from typing import Final

from alphaedge.core.batch import Batch
from alphaedge.core.gradients import Gradients
from alphaedge.core.online import predict
from alphaedge.core.state import ModelState
from alphaedge.edge.learning.id_tables import IdRows

# A model to start from is given up if its loss on the first batch is more than so many times that of no model.
MAX_START_RATIO: Final = 1.25


def find_better_start(
    started: ModelState, tables: Sequence[IdRows], batch: Batch, gradients: Gradients
) -> ModelState | None:
    """A model that has learned nothing, if the one that the edge has started from is far worse on the first batch."""
    fresh = ModelState.start([gradients.model], [0])
    fresh.tables = [table.untrained() for table in tables]
    losses = [
        float(gradients.model.loss.function(predict(state, batch, gradients)[0], batch.labels[0]))
        for state in (started, fresh)
    ]
    return None if losses[0] <= MAX_START_RATIO * losses[1] else fresh  # nor one that is not finite
