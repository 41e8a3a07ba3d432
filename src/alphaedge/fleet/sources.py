"""What an edge predicts from, read from a folder: of a simulation, of a fleet, of a live edge, or of an export."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from alphaedge import toml
from alphaedge.core.fields import KEYED
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.config import load as load_config
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.journal_batches import journal_batches
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.saved_learner import read_learner
from alphaedge.edge.store.journal import Journal
from alphaedge.errors import InvalidValue
from alphaedge.fleet.edge_sections import method_config, model_config
from alphaedge.fleet.export_folder import DESCRIPTION_FILE, read_export
from alphaedge.fleet.layout import FLEET_FILE, Fleet, edge_names
from alphaedge.fleet.restore import restore_learner
from alphaedge.fleet.snapshot import SECRET, Snapshot
from alphaedge.fleet_state import STATE_FILE, FleetState
from alphaedge.simulation import config as simulation_config

EDGE_FILE: Final = "edge.toml"
ALLOWED: Final = (
    "a results folder of `alphaedge simulate --out`, a folder of `alphaedge fleet init`, an edge's folder, "
    "or a folder of `alphaedge export`"
)


def read_snapshot(
    path: Path, edge: str | None = None, *, model: str | None = None, secret: Path | None = None
) -> Snapshot:
    """Read what an edge predicts from. See ``alphaedge.load`` for the arguments."""
    if (path / DESCRIPTION_FILE).is_file():
        return read_export(path, model=model, secret=secret)
    if (path / FLEET_FILE).is_file():
        edges = Fleet.load(path).edges
        chosen = edges[_choose(edge, [e.place for e in edges], [e.name for e in edges])]
        return _of_edge(path / chosen.name, chosen.place)
    if (path / EDGE_FILE).is_file():
        return _of_edge(path, None)
    if (path / STATE_FILE).is_file():
        return _of_results(path, edge, model)
    raise InvalidValue("path", str(path), ALLOWED)


def _choose(edge: str | None, places: Sequence[str], names: Sequence[str]) -> int:
    """The number of an edge by what the data call it, or by the name of its folder; None if there is only one."""
    if edge is None and len(places) == 1:
        return 0
    for known in (places, names):
        if edge is not None and edge in known:
            return list(known).index(edge)
    raise InvalidValue("edge", edge, f"one of {', '.join(places)}")


def _of_results(folder: Path, edge: str | None, factory: str | None) -> Snapshot:
    state, settings = FleetState.read(folder / STATE_FILE), simulation_config.load(folder / "config.toml")
    names = edge_names(state.names)
    number = _choose(edge, state.names, names)
    sections = {"model": model_config(state, settings, factory), "method": method_config(state, settings)}
    config = toml.build({"edge": names[number], "region": names[number], **sections}, EdgeConfig)
    learner = restore_learner(config, state, number, names, SECRET).catch_up()
    description = state.description
    known = {
        field.name: description.values.get(field.name) or [str(value) for value in range(field.size)]
        for field in description.fields
        if field.kind in KEYED
    }
    return Snapshot.of(learner, state.names[number], config.model, SECRET, known)


def _of_edge(folder: Path, place: str | None) -> Snapshot:
    """Of a live edge: its newest checkpoint and what its journal has since, as the edge itself would start."""
    config = load_config(folder / EDGE_FILE)
    learner, progress = read_learner(config, folder)
    data = folder / config.data
    if (data / "journal.db").is_file():
        _learn_journal(learner, config, data / "journal.db", progress.feedback if progress is not None else 0)
    secret = (folder / config.secret).read_bytes().strip() if config.secret else b""
    return Snapshot.of(learner, place or config.edge, config.model, secret, None)


def _learn_journal(learner: Learner, config: EdgeConfig, path: Path, feedback: int) -> None:
    """Learn whole batches until a round is due. Rows that were adopted from peers since the checkpoint are left out."""
    features, size = Features(config.model.fields, b""), config.model.batch_size  # the journal holds keys, not ids
    journal = Journal(path, layout=features.layout, readonly=True)
    try:
        batches = journal_batches(journal, features, learner.model, size, feedback)
        while not learner.due and (batch := next(batches, None)) is not None:
            learner.learn(batch.examples)
    finally:
        journal.close()
