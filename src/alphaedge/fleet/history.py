"""Let a live edge start from a table of past events, which it learns when it starts, instead of a simulated state."""

from pathlib import Path

from msgspec import structs
from torch import Tensor

from alphaedge.core.fields import KEYED, Field
from alphaedge.core.gradients import OneAtATime
from alphaedge.data.stream import Dataset
from alphaedge.data.table import load
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.loop import make_learner
from alphaedge.edge.model import initial_model
from alphaedge.errors import InvalidValue
from alphaedge.fleet.restore import raw_events, take_batch
from alphaedge.fleet.warm_start import write_journal
from alphaedge.fleet_state import Description
from alphaedge.simulation.config import Settings


def read_history(file: str, settings: Settings) -> Dataset:
    """Read a table of events with the columns of a simulation's table."""
    if settings.table is None:
        raise InvalidValue("history", file, f"no table: the simulation was of the data set {settings.data}")
    return load(structs.replace(settings.table, file=file, only=True))


def with_history(about: Description, history: Dataset) -> Description:
    """What the data are if the history belongs to them: numbers may be missing in either, and there is room for all."""
    if (found := history.task) != about.task:
        raise InvalidValue("history: task", found, f"{about.task}, as in the simulation")
    fields = {field.name: field for field in history.fields}
    return structs.replace(about, fields=tuple(_both(field, fields[field.name]) for field in about.fields))


def _both(field: Field, other: Field) -> Field:
    if field.kind not in KEYED and field.size != other.size:
        raise InvalidValue(
            f"history: field {field.name}", f"{other.size} numbers", f"{field.size}, as in the simulation"
        )
    return Field(field.name, field.kind, max(field.size, other.size), field.missing or other.missing)


def start_from_history(
    config: EdgeConfig, folder: Path, history: Dataset, place: str, secret: bytes, now: float
) -> None:
    """Write all events of a place to the journal of its edge, whose data folder must be empty; maybe there are none.

    Every event gets the prediction of an edge that learns them alone, in their order. now: seconds since 1970.
    """
    path, features = folder / config.data / "journal.db", Features(config.model.fields, secret)
    if place not in history.edge_names:
        return
    stream = history.streams[history.edge_names.index(place)]
    learner = make_learner(config, OneAtATime(initial_model(config)))
    events = features.encode(raw_events(history, stream.inputs))
    inputs = features.to_tensors(events, learner.model.fields)
    outputs = _predict_and_learn(learner, inputs, stream.labels.to(learner.model.dtype), config.model.batch_size)
    write_journal(path, features, events, outputs, stream.labels.tolist(), now)


def _predict_and_learn(learner: Learner, inputs: list[Tensor], labels: Tensor, size: int) -> list[float]:
    """Predict each batch before it is learned, without peers."""
    outputs: list[float] = []
    for at in range(0, len(labels), size):
        batch = take_batch(inputs, labels, at, size)
        outputs += learner.model.loss.link(learner.predict(batch.inputs)).tolist()
        learner.learn(batch)
        if learner.due:
            learner.start_round()
            learner.finish_round([learner.name], {})
    return outputs
