"""What a demonstration is about: the events, the model that fits them, and who gets which. Pure."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from alphaedge.data.stream import Dataset, Stream
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.errors import InvalidValue
from alphaedge.replay.model_section import model_section

BATCH, EVERY, PEERS = 20, 5, 2  # so small that every edge mixes dozens of times in two minutes, and has to choose
RATE: Final = 0.005
WEIGHT_RATE: Final = 0.5  # mixes are of few batches here, so each has to say more
EVENTS_PER_SECOND: Final = 270  # of the whole fleet: what two cores bear with all the edges on them
CLUSTER: Final = 3  # edges that are alike in the made-up store


@final
@dataclass(frozen=True)
class World:
    """Streams by the edge's name, with the groups of likes where they are known, and sections of a configuration."""

    data: Dataset
    streams: Mapping[str, Stream]
    alike: Mapping[str, int]
    model: Mapping[str, Any]
    method: Mapping[str, Any]


def store(edges: int, seconds: float, seed: int = 0) -> Dataset:
    """The synthetic regional store in the size that a demonstration needs: clusters of three edges or so."""
    events = max(4 * BATCH * EVERY, int(EVENTS_PER_SECOND * seconds / edges))
    clusters = max(1, edges // CLUSTER)
    return synthetic(
        Store(edges=edges, clusters=clusters, events=events, items=500, users=100, appeal=2.5, changes=2, seed=seed)
    )


def world(data: Dataset, names: Sequence[str], name: str, seconds: float) -> World:
    """The first edges of a data set under new names, with as many events as fit into the time."""
    if len(data.streams) < len(names):
        raise InvalidValue("edges", len(names), f"at most {len(data.streams)}, which {data.name} has")
    chosen = replace(data, streams=data.streams[: len(names)], clusters=None, names=None, noise={})
    chosen = chosen.window(int(EVENTS_PER_SECOND * seconds))
    alike = dict(zip(names, data.clusters, strict=False)) if data.clusters else {}
    return World(
        data=chosen,
        streams=dict(zip(names, chosen.streams, strict=True)),
        alike=alike,
        model=tomllib.loads(model_section(chosen, name=name, batch_size=BATCH, rate=RATE))["model"],
        method={"aggregate_every": EVERY, "peers": min(PEERS, max(1, len(names) - 1)), "weight_rate": WEIGHT_RATE},
    )
