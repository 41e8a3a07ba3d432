"""Let a live edge start where a simulation ended: a checkpoint, and a journal with the events since its last round."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.checkpoints import Checkpoints
from alphaedge.edge.model import model_schema
from alphaedge.edge.store.journal import NOT_PREDICTED, Journal
from alphaedge.fleet.restore import restore_learner
from alphaedge.fleet_state import FleetState

EVENTS_AT_ONCE: Final = 10_000  # that one commit of the journal has


def warm_start(
    config: EdgeConfig, folder: Path, state: FleetState, edge: int, names: Sequence[str], secret: bytes, now: float
) -> None:
    """Write the checkpoint and the journal of an edge to its data folder, which must be empty.

    edge: its place in the state. names: of all live edges, in the order of the state. now: seconds since 1970.
    """
    restored, data = restore_learner(config, state, edge, names, secret), folder / config.data
    learner = restored.learner
    if restored.progress is not None:
        schema = model_schema(config, learner.model)
        Checkpoints(data / "checkpoints").save(learner, schema, restored.progress)
    write_journal(data / "journal.db", restored.features, restored.events, restored.labels.tolist(), now)


def write_journal(path: Path, features: Features, events: NDArray[Any], labels: list[float], now: float) -> None:
    """Write events with their feedback, to be learned and not to be scored: the edge has never predicted them.

    now: the time of all of them, in seconds since 1970.
    """
    journal = Journal(path, layout=features.layout)
    try:
        for start in range(0, len(labels), EVENTS_AT_ONCE):
            part = slice(start, start + EVENTS_AT_ONCE)
            examples = features.to_bytes(events[part])
            ids = journal.record_predictions(examples, [NOT_PREDICTED] * len(examples), now)
            journal.record_feedback(zip(ids, labels[part], strict=True), now)
    finally:
        journal.close()
