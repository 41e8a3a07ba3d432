"""Keep what each edge was at the end of its last round, and the events after it (``alphaedge.fleet_state``)."""

from collections.abc import Sequence
from typing import Final, final

import numpy as np
import torch
from torch import Tensor

from alphaedge.core.state import ModelState
from alphaedge.data.stream import Dataset
from alphaedge.fleet_state import Description, EdgeState, FleetState
from alphaedge.simulation.engine import Engine

MAX_EDGES: Final = 512  # of a fleet whose end is kept


def describe(data: Dataset, *, from_python: bool) -> Description:
    """What a data set is, without its events. from_python: whether it came as an object."""
    return Description(
        name=data.name,
        task=data.task,
        fields=data.fields,
        label_scale=data.label_scale,
        last=data.last,
        relative=data.relative,
        columns=dict(data.columns),
        classes=data.classes,
        from_python=from_python,
        values={name: tuple(values) for name, values in data.values.items()},
    )


@final
class EndState:
    """Collects the states of the first run of a stack while it is simulated. from_python: see ``describe``."""

    def __init__(self, engine: Engine, data: Dataset, *, from_python: bool) -> None:
        self._engine, self._data, self._from_python = engine, data, from_python
        self._edges: dict[int, EdgeState] = {}
        self._tensors: dict[int, dict[str, Tensor]] = {}

    def keep(self, edges: Sequence[int]) -> None:
        """Keep edges as they are: those of the first run that have no round to come."""
        for edge in edges:
            if edge < self._engine.world.n:
                self._keep(edge)

    def _keep(self, edge: int) -> None:
        world, size = self._engine.world, self._engine.world.batches.size
        timeline, local = world.where(edge)
        batches, waiting = world.at[edge] - world.conditions.delay, len(world.pending[edge])
        first = max(0, batches - waiting) * size
        links, number = world.links[edge], int(world.published.number[edge])
        pool = number % world.published.depth
        self._edges[edge] = EdgeState(
            name=self._data.edge_names[edge],
            rounds=True,
            batches=batches - timeline.first[local],
            waiting=waiting,
            aggregations=int(world.aggregations[edge]),
            records=int(world.records[edge]),
            publication=number,
            published_records=int(world.published.records[pool, edge]),
            own=links.own,
            neighbours=tuple(links.neighbours),
            known=dict(links.known),
            others=tuple(links.others),
            ears=dict(links.ears),
            shares=world.announced[world.own[edge]][-1][1],
        )
        found = {f"published.{name}": pool_[pool, edge] for name, pool_ in world.published.statistics.items()}
        found["published"], found["residual"] = world.published.dense[pool, edge], world.published.residual_dense[edge]
        found |= _events(self._data, edge, first)
        for name, state in (("mixed", world.models), ("home", world.home)):
            if state is not None:
                found |= _dense(name, state, edge)
        if self._engine.judge is not None:
            for name, tensor in self._engine.judge.tensors():
                found[name] = tensor[edge]
        for t, since in enumerate(world.named.since):
            rows = self._rows(edge, t)
            found |= {f"named_since.{t}": since[edge, rows], f"trained.{t}": world.trained[t][edge, rows]}
            found[f"rows.{t}"] = world.batches.own_rows[t].named[edge, rows].long()
            found[f"published.{t}"] = world.published.tables[t][pool, edge, rows]
            found[f"residual.{t}"] = world.published.residual_rows[t][edge, rows]
            found[f"version.{t}"] = world.published.version[t][pool, edge, rows].long()
            for name, state in (("mixed", world.models), ("home", world.home)):
                if state is not None:
                    found[f"{name}.{t}"] = state.tables[t].storage[:, edge, rows]
        self._tensors[edge] = {name: tensor.detach().cpu().clone() for name, tensor in found.items()}

    def _rows(self, edge: int, table: int) -> Tensor:
        """The rows of an edge's table that its events name, the longest unused first."""
        world, model, stream = self._engine.world, self._engine.world.gradients.model, self._data.streams[edge]
        batches, own = world.batches, world.batches.own_rows[table]
        fields = [model.fields[f] for f in model.tables[table].fields]
        named = np.concatenate([stream.inputs[f].reshape(len(stream), -1).numpy() for f in fields], axis=1)
        timeline, local = world.where(edge)
        named = named[timeline.first[local] * batches.size : batches.count[edge] * batches.size]
        last = np.full(own.rows + 1, -1, dtype=np.int64)
        last[named.reshape(-1)] = np.arange(named.size)  # of a number that occurs more than once, the last place stays
        numbers = own.named[edge].cpu().long()
        used = torch.from_numpy(last)[numbers]
        rows = ((used >= 0) & (numbers < own.rows)).nonzero().flatten()
        return rows[used[rows].argsort(stable=True)]

    def finish(self, method: str, builtin: str | None) -> FleetState | None:
        """The state of the whole fleet, now that the run has ended. Edges without a round have events only.

        None if the run went on from a checkpoint after some edges' last rounds: what they were then is not known.
        """
        world, size = self._engine.world, self._engine.world.batches.size
        edges, tensors = [], []
        for edge in range(world.n):
            one = self._edges.get(edge)
            if one is None:
                if int(world.aggregations[edge]) > 0:
                    return None
                one = EdgeState(name=self._data.edge_names[edge], rounds=False)
            edges.append(one)
            tensors.append(self._tensors.get(edge) or _events(self._data, edge, 0))
        return FleetState(
            method=method,
            builtin=builtin,
            batch_size=size,
            description=describe(self._data, from_python=self._from_python),
            edges=tuple(edges),
            tensors=tuple(tensors),
        )


def _dense(name: str, state: ModelState, edge: int) -> dict[str, Tensor]:
    found = {f"{name}.dense": state.dense, f"{name}.m": state.dense_m, f"{name}.v": state.dense_v}
    found |= {f"{name}.steps": state.steps} | {f"{name}.buffer.{key}": b for key, b in state.buffers.items()}
    return {key: tensor[edge] for key, tensor in found.items()}


def _events(data: Dataset, edge: int, first: int) -> dict[str, Tensor]:
    """The events of an edge from the first one on."""
    stream = data.streams[edge]
    found = {f"events.{name}": values[first:] for name, values in stream.inputs.items()}
    return found | {"events.labels": stream.labels[first:]}
