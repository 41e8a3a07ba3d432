"""Small synthetic worlds with a known truth, for choosing settings: who is alike, and what changes.

Each is a store of ``alphaedge.data.synthetic``: 12 regions with about 3,000 views each, ids of customers and items, and
whether a view led to a purchase. ``Dataset.clusters`` says which regions are alike at the start. A world is the same in
every run; runs differ in the models' start and in what methods draw.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import msgspec

from alphaedge.data.stream import Dataset
from alphaedge.data.synthetic import Store, synthetic
from alphaedge.errors import check_choice

EDGES: Final = 12


@final
@dataclass(frozen=True)
class World:
    """One world: what is true in it, and the settings of its store."""

    what: str
    store: Store


CALM: Final = Store(edges=EDGES, events=3_000, items=200, users=100, new_items=0.0, changes=0, drift=0.0)


def _store(**changes: int | float) -> Store:
    """Make the settings of a small store in which nothing changes but what is asked for."""
    return msgspec.structs.replace(CALM, **changes)


WORLDS: Final[Mapping[str, World]] = {
    "world-one-cluster": World("all regions alike", _store(clusters=1)),
    "world-clusters": World("3 clusters of regions", _store(clusters=3)),
    "world-nothing-shared": World("each region is a cluster of its own", _store(clusters=EDGES)),
    "world-drift": World(
        "3 clusters that drift, new items, sudden changes", _store(clusters=3, drift=1.0, new_items=0.3, changes=3)
    ),
    "world-shifting": World("3 clusters, half of the regions change theirs", _store(clusters=3, moves=0.5)),
}


def load(name: str) -> Dataset:
    """Generate a world by its name in ``WORLDS``."""
    check_choice("world", name, WORLDS)
    return dataclasses.replace(synthetic(WORLDS[name].store), name=name)
