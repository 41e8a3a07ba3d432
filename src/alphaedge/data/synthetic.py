"""A synthetic store: views and purchases in n regions, with known clusters of similar regions.

Each region is a shop whose customers view items and buy some. Regions belong to hidden **clusters of taste**: what
sells in one region sells in the other regions of its cluster, but not in other clusters. A view of item i in region r
at time t leads to a purchase with probability

    sigmoid( b + a * appeal_c(i, t) + taste_r . category(i) - sensitivity_c * price(i) + 0.5 * stock(i, t) + user )

where appeal_c(i, t) is the appeal of item i in the cluster and a is ``Store.appeal``. In addition there are

- **new items**: a share of the catalogue appears during the run;
- **sudden changes**: at a few moments, the appeal of some items jumps in a single cluster;
- **drift**: the appeals of a cluster slowly turn into others;
- **moves**: half-way through the run, a share of the regions changes to the next cluster.

A region sees each item rarely, so it learns much faster with its own cluster, and is misled by the others.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

import msgspec
import numpy as np
import torch

from alphaedge.core.fields import Field
from alphaedge.data.stream import Dataset, Stream
from alphaedge.errors import check_number

MOVE_AT: Final = 0.5  # when regions change their clusters; a run goes from 0 to 1


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the synthetic store."""

    edges: int = 24
    clusters: int = 4
    events: int = 20_000  # per region on average
    items: int = 1_000
    categories: int = 8
    users: int = 300  # per region
    new_items: float = 0.3  # share of the items that appear during the run
    changes: int = 4  # sudden ones, in the whole run
    drift: float = 0.5  # how far the appeals of a cluster turn into others over the run
    appeal: float = 1.6  # how much an item's own appeal matters
    moves: float = 0.0  # share of the regions that change to another cluster half-way
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("edges", "clusters", "events", "items", "categories", "users"):
            check_number(name, getattr(self, name), low=1, whole=True)
        for name in ("new_items", "drift", "moves"):
            check_number(name, getattr(self, name), low=0, high=1)
        check_number("changes", self.changes, low=0, whole=True)
        check_number("appeal", self.appeal, low=0)
        check_number("seed", self.seed, low=0, whole=True)

    def min_events(self) -> int:
        """Return the smallest number of events that a region can have: regions differ in size."""
        return max(1, int(self.events * 0.75))


def synthetic(store: Store, keep: Callable[[Iterable[Stream]], tuple[Stream, ...]] = tuple) -> Dataset:
    """Generate the events of a store. Equal settings give equal events.

    keep: where the streams go while they are generated one after the other; into memory by default. ``clusters`` of the
    data set are those at the start.

    >>> data = synthetic(Store(edges=4, clusters=2, events=100))
    >>> len(data.streams), sorted(set(data.clusters))
    (4, [0, 1])
    """
    world = _World(store, np.random.default_rng([store.seed, 77]))
    streams = keep(world.region(r) for r in range(store.edges))
    fields = (
        Field("user", "id", store.edges * store.users),
        Field("item", "id", store.items),
        Field("category", "code", store.categories),
        Field("numbers", "number", 3),
    )
    return Dataset("synthetic", "classify", fields, streams, tuple(int(c) for c in world.cluster))


@final
class _World:
    """What all regions share: the catalogue, the clusters, and how both change over time."""

    def __init__(self, store: Store, rng: np.random.Generator) -> None:
        s = self.store = store
        clusters = min(s.clusters, s.edges)
        self.cluster = rng.permutation(np.arange(s.edges) % clusters)
        self.category = rng.integers(s.categories, size=s.items)
        self.price = rng.normal(size=s.items)
        self.restocked = rng.random(s.items)  # phase of the stock cycle
        born = rng.random(s.items) * 0.9
        self.born = np.where(rng.random(s.items) < s.new_items, born, 0.0)
        self.popularity = 1 / (1 + rng.permutation(s.items)) ** 0.6
        self.appeal = rng.normal(size=(2, clusters, s.items))  # at the start, and where it drifts to
        self.taste = rng.normal(size=(clusters, s.categories)) * 0.5
        self.price_sensitivity = rng.normal(size=clusters) * 0.4
        self.when = np.sort(rng.random(s.changes))
        self.where = rng.integers(clusters, size=s.changes)
        self.jump = rng.normal(size=(s.changes, s.items)) * 2 * (rng.random((s.changes, s.items)) < 0.15)
        moving = rng.permutation(s.edges)[: round(s.moves * s.edges)]  # drawn last: other settings keep their events
        self.later = self.cluster.copy()  # the clusters of the second half
        self.later[moving] = (self.later[moving] + 1) % clusters

    def region(self, r: int) -> Stream:
        s = self.store
        rng = np.random.default_rng([s.seed, 78, r])
        events = max(s.min_events(), int(s.events * rng.uniform(0.75, 1.25)))
        time = np.sort(rng.random(events))
        cluster = np.where(time < MOVE_AT, self.cluster[r], self.later[r])  # of each event
        item = self._views(time, rng)
        user = rng.integers(s.users, size=events)
        stock = 1 - (time * 12 + self.restocked[item]) % 1
        own_taste = rng.normal(size=s.categories) * 0.15
        fondness = rng.normal(size=s.users) * 0.4
        turn = time * s.drift * np.pi / 2
        appeal = np.cos(turn) * self.appeal[0, cluster, item] + np.sin(turn) * self.appeal[1, cluster, item]
        for moment, where, jump in zip(self.when, self.where, self.jump, strict=True):
            appeal = appeal + jump[item] * ((time >= moment) & (where == cluster))
        taste = self.taste[cluster, self.category[item]] + own_taste[self.category[item]]
        logit = s.appeal * appeal + taste - self.price_sensitivity[cluster] * self.price[item]
        logit = logit + 0.5 * (stock - 0.5) + fondness[user] - 0.8
        bought = rng.random(events) < 1 / (1 + np.exp(-logit))
        numbers = np.stack([self.price[item], stock * 2 - 1, np.clip((time - self.born[item]) * 4, 0, 1)], axis=1)
        return Stream(
            {
                "user": torch.from_numpy(user + r * s.users),
                "item": torch.from_numpy(item),
                "category": torch.from_numpy(self.category[item]),
                "numbers": torch.from_numpy(numbers).float(),
            },
            torch.from_numpy(bought).float(),
            torch.from_numpy(time),
        )

    def _views(self, time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the item of each view: popular ones more often, none before it appears."""
        item = np.empty(len(time), dtype=np.int64)
        waiting = np.arange(len(time))
        chance = np.cumsum(self.popularity) / self.popularity.sum()
        while len(waiting):
            drawn = np.minimum(np.searchsorted(chance, rng.random(len(waiting))), len(chance) - 1)
            item[waiting] = drawn
            waiting = waiting[self.born[drawn] > time[waiting]]
        return item
