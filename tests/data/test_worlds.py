"""The small worlds: what each says is true in it is found in its events."""

from collections import Counter

import numpy as np
import pytest

from alphaedge import Dataset, InvalidValue
from alphaedge.data.worlds import CALM, EDGES, WORLDS, load
from alphaedge.simulation.catalog import CATALOG

from .archives import same


def correlations(data: Dataset, after: float = 0.0, before: float = 1.0) -> np.ndarray:
    """Return the correlation of purchase rates by item between all regions, within a time."""
    rates = []
    for stream in data.streams:
        when = (stream.times >= after) & (stream.times < before)
        item, bought = stream.inputs["item"][when].numpy(), stream.labels[when].numpy()
        seen, sold = np.bincount(item, minlength=CALM.items), np.bincount(item, bought, minlength=CALM.items)
        rates.append((sold + 2) / (seen + 4))
    return np.corrcoef(rates)


def inside_and_outside(data: Dataset, **when: float) -> tuple[float, float]:
    """Return the mean correlation of regions of one cluster, and of different ones; NaN if there are none."""
    assert data.clusters is not None
    found = correlations(data, **when)
    pairs = [(a, b) for a in range(EDGES) for b in range(a)]
    same_cluster = [data.clusters[a] == data.clusters[b] for a, b in pairs]
    alike = [found[pair] for pair, yes in zip(pairs, same_cluster, strict=True) if yes]
    unlike = [found[pair] for pair, yes in zip(pairs, same_cluster, strict=True) if not yes]
    nothing = float("nan")
    return float(np.mean(alike)) if alike else nothing, float(np.mean(unlike)) if unlike else nothing


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_is_small_has_ids_and_is_the_same_every_time(name: str) -> None:
    data = load(name)
    assert (data.name, len(data.streams), data.task) == (name, EDGES, "classify")
    assert 30_000 < sum(len(s) for s in data.streams) < 42_000
    assert [f.name for f in data.fields if f.kind == "id"] == ["user", "item"]
    assert same(data, load(name))
    assert name in CATALOG


@pytest.mark.parametrize(
    ("name", "sizes"), [("one-cluster", [12]), ("clusters", [4, 4, 4]), ("nothing-shared", [1] * 12)]
)
def test_clusters_are_as_the_name_says_and_in_the_events(name: str, sizes: list[int]) -> None:
    data = load(f"world-{name}")
    assert data.clusters is not None
    assert sorted(Counter(data.clusters).values()) == sizes
    inside, outside = inside_and_outside(data)
    assert np.isnan(inside) or inside > 0.4
    assert np.isnan(outside) or abs(outside) < 0.15


def test_in_the_drifting_world_regions_end_up_unlike_their_start_but_like_their_cluster() -> None:
    calm, drifting = load("world-clusters"), load("world-drift")
    inside, outside = inside_and_outside(drifting, after=0.7)
    assert inside > 0.3
    assert abs(outside) < 0.15
    assert drifting.clusters is not None
    assert calm.clusters is not None
    assert sorted(Counter(drifting.clusters).values()) == [4, 4, 4]


def test_in_the_shifting_world_clusters_hold_in_the_first_half_only() -> None:
    data = load("world-shifting")
    before, after = (inside_and_outside(data, **when) for when in ({"before": 0.5}, {"after": 0.5}))
    assert before[0] > 0.3
    assert after[0] < before[0] - 0.1
    assert after[1] > before[1] + 0.05


def test_an_unknown_world_is_refused() -> None:
    with pytest.raises(InvalidValue, match="world-clusters"):
        load("world-flat")
