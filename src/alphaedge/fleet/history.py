"""Let a live edge start from a table of past events, which it learns when it starts, instead of a simulated state."""

from pathlib import Path

from msgspec import structs

from alphaedge.core.fields import KEYED, Field
from alphaedge.data.stream import Dataset, same_classes
from alphaedge.data.table import load
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.errors import InvalidValue
from alphaedge.fleet.restore import raw_events
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
    if not same_classes(history.classes, about.classes):
        raise InvalidValue("history: labels", history.classes, f"{about.classes}, as in the simulation")
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

    now: seconds since 1970.
    """
    path, features = folder / config.data / "journal.db", Features(config.model.fields, secret)
    if place not in history.edge_names:
        return
    stream = history.streams[history.edge_names.index(place)]
    write_journal(path, features, features.encode(raw_events(history, stream.inputs)), stream.labels.tolist(), now)
