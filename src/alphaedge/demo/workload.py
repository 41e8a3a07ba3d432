"""The workload of a demonstration: the events of each edge, and the model and method that fit them. Pure."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from alphaedge.data.stream import Dataset, Stream
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.errors import InvalidValue
from alphaedge.replay.model_section import model_section

# So small that every edge mixes dozens of times in two minutes, and has to choose its neighbours.
BATCH_SIZE, AGGREGATE_EVERY, NEIGHBOURS = 20, 5, 2
RATE: Final = 0.005
WEIGHT_RATE: Final = 0.5  # larger than usual: an aggregation sees few batches here
EVENTS_PER_SECOND: Final = 270  # of the whole fleet: what two cores can bear that run all the edges
EDGES_PER_CLUSTER: Final = 3  # of the synthetic store


@final
@dataclass(frozen=True)
class Workload:
    """Streams by edge, with the cluster of each edge where it is known, and sections of a configuration."""

    data: Dataset
    streams: Mapping[str, Stream]
    clusters: Mapping[str, int]
    model: Mapping[str, Any]
    method: Mapping[str, Any]


def make_store(edges: int, seconds: float, seed: int = 0) -> Dataset:
    """Generate a synthetic store of the size that a demonstration needs, with clusters of about three edges."""
    events = max(4 * BATCH_SIZE * AGGREGATE_EVERY, int(EVENTS_PER_SECOND * seconds / edges))
    clusters = max(1, edges // EDGES_PER_CLUSTER)
    return synthetic(
        Store(edges=edges, clusters=clusters, events=events, items=500, users=100, appeal=2.5, changes=2, seed=seed)
    )


def make_workload(data: Dataset, names: Sequence[str], model_name: str, seconds: float) -> Workload:
    """Give the first edges of a data set new names, and keep as many events as fit into the time."""
    if len(data.streams) < len(names):
        raise InvalidValue("edges", len(names), f"at most {len(data.streams)}, which {data.name} has")
    part = replace(data, streams=data.streams[: len(names)], clusters=None, names=None, noise={})
    part = part.window(int(EVENTS_PER_SECOND * seconds))
    return Workload(
        data=part,
        streams=dict(zip(names, part.streams, strict=True)),
        clusters=dict(zip(names, data.clusters, strict=False)) if data.clusters else {},
        model=tomllib.loads(model_section(part, name=model_name, batch_size=BATCH_SIZE, rate=RATE))["model"],
        method={
            "aggregate_every": AGGREGATE_EVERY,
            "peers": min(NEIGHBOURS, max(1, len(names) - 1)),
            "weight_rate": WEIGHT_RATE,
        },
    )
