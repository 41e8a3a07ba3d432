"""Make the learner of a live edge what a simulated edge was at the end of its last round."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.core.fields import KEYED
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.links import Links
from alphaedge.core.state import ModelState
from alphaedge.data.stream import Dataset
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.learning.checkpoints import Progress
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.id_tables import fit_columns
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.loop import make_learner
from alphaedge.edge.learning.private_state import withhold
from alphaedge.edge.learning.publication import Publication
from alphaedge.edge.model import initial_model
from alphaedge.errors import InvalidValue
from alphaedge.fleet_state import Description, EdgeState, FleetState


@final
class Restored(NamedTuple):
    """A learner at the end of an edge's last round, and the events since, which it has not learned yet.

    progress: None if the edge had no round; the learner knows nothing then. size: of a batch.
    """

    learner: Learner
    features: Features
    events: NDArray[Any]
    labels: Tensor
    progress: Progress | None
    size: int

    def inputs(self) -> list[Tensor]:
        """The events as the learner takes them."""
        return self.features.to_tensors(self.events, self.learner.model.fields)

    def catch_up(self) -> Learner:
        """Learn the events, as a live edge does when it starts: whole batches, until a round is due."""
        inputs, learner = self.inputs(), self.learner
        for at in range(0, len(self.labels) - self.size + 1, self.size):
            if learner.due:
                break
            learner.learn(take_batch(inputs, self.labels, at, self.size))
        return learner


def restore_learner(config: EdgeConfig, state: FleetState, edge: int, names: Sequence[str], secret: bytes) -> Restored:
    """Restore one edge of a simulated fleet.

    edge: its place in the state. names: of all live edges, in the order of the state. secret: under which ids become
    keys.
    """
    model, own, tensors = initial_model(config), state.edges[edge], state.tensors[edge]
    learner = make_learner(config, OneAtATime(model))
    features, labels = Features(config.model.fields, secret), tensors["events.labels"].to(model.dtype)
    since = {field.name: tensors[f"events.{field.name}"] for field in state.description.fields}
    events = features.encode(raw_events(state.description, since)) if len(labels) else features.sample()[:0]
    if not own.rounds:
        return Restored(learner, features, events, labels, None, state.batch_size)
    _check_layout(learner, tensors, state)
    _restore(learner, own, tensors, names)
    for t, table in enumerate(model.tables):
        _restore_rows(learner, t, _keys(state, tensors, t, model.fields[table.fields[0]], secret), tensors)
    size, waiting = state.batch_size, own.waiting * state.batch_size
    inputs = features.to_tensors(events[:waiting], model.fields)
    withhold(learner)  # what a simulation has published is no private release of this edge
    learner.train_mixed([take_batch(inputs, labels, at, size) for at in range(0, waiting, size)])
    learner.note_round_end()
    return Restored(learner, features, events[waiting:], labels[waiting:], Progress(batches=own.batches), size)


def take_batch(inputs: Sequence[Tensor], labels: Tensor, at: int, size: int) -> Examples:
    """The events from one place on, so many or as many as there are."""
    return Examples([x[at : at + size] for x in inputs], labels[at : at + size])


def raw_events(about: Description | Dataset, inputs: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Events as a caller would send them: values, not the numbers that stand for them."""
    raw = {}
    for field in about.fields:
        found = inputs[field.name].numpy()
        if field.kind in KEYED and field.name in about.values:
            found = np.array(about.values[field.name], dtype=object)[found]
        raw[field.name] = found
    return raw


def _keys(state: FleetState, tensors: Mapping[str, Tensor], table: int, field: str, secret: bytes) -> Tensor:
    """The keys of the rows of an id table, in their order."""
    values: Sequence[str] | None = state.description.values.get(field)
    numbers = tensors[f"rows.{table}"].tolist()
    keys = [key_of(values[n] if values is not None else n, secret) for n in numbers]
    return torch.tensor(keys, dtype=torch.long)


def _check_layout(learner: Learner, tensors: Mapping[str, Tensor], state: FleetState) -> None:
    """Refuse a state of another model or method than the configuration has."""
    model = learner.model
    found = {
        "numbers": len(tensors["mixed.dense"]),
        "buffers": sorted(name.removeprefix("mixed.buffer.") for name in tensors if name.startswith("mixed.buffer.")),
        "id tables": [tensors[f"mixed.{t}"].shape[-1] for t in range(len(model.tables)) if f"mixed.{t}" in tensors],
        "home model": "home.dense" in tensors,
    }
    wanted = {
        "numbers": model.dense_size,
        "buffers": sorted(model.initial_buffers()),
        "id tables": [table.columns for table in model.tables],
        "home model": learner.home is not None,
    }
    for part, expected in wanted.items():
        if found[part] != expected:
            raise InvalidValue(
                f"state of {state.method}: {part}", found[part], f"{expected}, as the configured model and method have"
            )


def _restore(learner: Learner, own: EdgeState, tensors: Mapping[str, Tensor], names: Sequence[str]) -> None:
    """Set everything that belongs to no row."""
    for name, state in learner.states.items():
        _restore_dense(state, name, tensors)
    if "judge.evidence" in tensors:
        learner.evidence, learner.unused = tensors["judge.evidence"].unsqueeze(0), tensors["judge.unused"].unsqueeze(0)
    learner.records, learner.revealed, learner.aggregations = own.records, own.batches, own.aggregations
    learner.topology = {names[j]: share for j, share in own.shares.items()}
    if own.publication:
        # The simulator keeps published statistics only where they are mixed; peers are told the edge's own.
        statistics = {
            name: tensors.get(f"published.{name}", tensors[f"mixed.buffer.{name}"])
            for name in learner.model.statistics()
        }
        dense = tensors["published"]
        residual = tensors.get("residual", dense[:0])  # an earlier version's states have none
        learner.publication = Publication(own.publication, own.published_records, dense, statistics, residual)
    if own.own is not None:
        # Peers' models are not in the state: each is pulled whole once, and only its changes after that.
        known = {names[j]: replace(link, publication=-1, pulled_at=-1) for j, link in own.known.items()}
        ears = {names[j]: replace(ear, publication=-1, pulled_at=-1) for j, ear in own.ears.items()}
        neighbours = [names[j] for j in own.neighbours]
        others = [names[j] for j in own.others] if learner.method.others else []
        learner.links = Links[str](own.own, neighbours, known, others, ears)


def _restore_dense(state: ModelState, name: str, tensors: Mapping[str, Tensor]) -> None:
    state.dense[0], state.dense_m[0], state.dense_v[0] = (tensors[f"{name}.{part}"] for part in ("dense", "m", "v"))
    state.steps[0] = tensors[f"{name}.steps"]
    for key, buffer in state.buffers.items():
        buffer[0] = tensors[f"{name}.buffer.{key}"]


def _restore_rows(learner: Learner, t: int, keys: Tensor, tensors: Mapping[str, Tensor]) -> None:
    """Give keys their rows, the longest unused first, with all that was learned of them."""
    table = learner.tables[t]
    if not len(keys):
        return
    if len(keys) > (capacity := table.numbering.capacity):
        raise InvalidValue("ids of a table in the state", len(keys), f"at most {capacity}, the rows of the table")
    table.admit(keys, learner.aggregations)
    rows = table.rows(keys)
    for name, state in learner.states.items():
        state.tables[t].storage[:, 0, rows] = tensors[f"{name}.{t}"]
    table.named_since[rows] = tensors[f"named_since.{t}"]
    table.restore_names(table.named_since, None, learner.aggregations)
    table.trained[rows], table.version[rows] = tensors[f"trained.{t}"], tensors[f"version.{t}"]
    table.published[rows] = tensors[f"published.{t}"]
    residual = tensors.get(f"residual.{t}")
    if residual is not None:
        table.residual = fit_columns(table.residual, residual.shape[1])
        table.residual[rows] = residual
