"""The synthetic store has what its description says: clusters, new items, sudden changes, drift."""

from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from alphaedge import Dataset, InvalidValue, Store, synthetic


def store(**changes: Any) -> Store:
    return Store(**{"edges": 6, "clusters": 2, "events": 600, "items": 30, "users": 20} | changes)


def purchase_rates(data: Dataset, edge: int, items: int, *, after: float = 0.0, before: float = 1.0) -> np.ndarray:
    """Return the share of an item's views that end in a purchase, within a time; NaN for an item never seen."""
    stream = data.streams[edge]
    when = (stream.times >= after) & (stream.times < before)
    item, bought = stream.inputs["item"][when].numpy(), stream.labels[when].numpy()
    with np.errstate(invalid="ignore"):
        return np.bincount(item, bought, minlength=items) / np.bincount(item, minlength=items)


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.corrcoef(a[both], b[both])[0, 1])


def test_the_same_settings_give_the_same_events() -> None:
    one, two = synthetic(store()), synthetic(store())
    assert one.clusters == two.clusters
    for a, b in zip(one.streams, two.streams, strict=True):
        assert torch.equal(a.labels, b.labels)
        assert torch.equal(a.times, b.times)
        assert all(torch.equal(a.inputs[f], b.inputs[f]) for f in a.inputs)


def test_another_seed_gives_other_events() -> None:
    one, two = synthetic(store(seed=1)), synthetic(store(seed=2))
    assert not torch.equal(one.streams[0].times[:100], two.streams[0].times[:100])


def test_there_are_as_many_clusters_as_asked_of_about_equal_size() -> None:
    clusters = synthetic(store(edges=7, clusters=3)).clusters
    assert clusters is not None
    assert sorted(np.bincount(clusters).tolist()) == [2, 2, 3]


def test_no_more_clusters_than_edges() -> None:
    clusters = synthetic(store(edges=2, clusters=5)).clusters
    assert clusters is not None
    assert sorted(clusters) == [0, 1]


def test_an_edge_has_about_as_many_events_as_asked() -> None:
    counts = [len(s) for s in synthetic(store(edges=12, events=400)).streams]
    assert all(300 <= c <= 500 for c in counts)
    assert len(set(counts)) > 1


def test_users_belong_to_one_region_and_items_to_all() -> None:
    data = synthetic(store(users=20))
    for edge, stream in enumerate(data.streams):
        assert set((stream.inputs["user"] // 20).tolist()) == {edge}
        assert len(stream.inputs["item"].unique()) > 25


def test_both_outcomes_are_common() -> None:
    share = torch.cat([s.labels for s in synthetic(store()).streams]).mean()
    assert 0.15 < share < 0.85


def test_regions_of_a_cluster_buy_alike_and_others_do_not() -> None:
    data = synthetic(store(events=6000, appeal=3.0, drift=0.0, changes=0, new_items=0.0))
    rates = [purchase_rates(data, e, 30) for e in range(6)]
    inside, outside = [], []
    assert data.clusters is not None
    for a in range(6):
        for b in range(a):
            (inside if data.clusters[a] == data.clusters[b] else outside).append(similarity(rates[a], rates[b]))
    assert min(inside) > 0.9
    assert max(outside) < 0.5


def test_without_appeal_clusters_hardly_matter() -> None:
    strong, none = (synthetic(store(events=6000, appeal=a, drift=0.0, changes=0, new_items=0.0)) for a in (3.0, 0.0))
    assert np.nanstd(purchase_rates(none, 0, 30)) < 0.6 * np.nanstd(purchase_rates(strong, 0, 30))


def test_new_items_are_not_seen_before_they_appear() -> None:
    data = synthetic(store(events=3000, items=40, new_items=0.5, edges=4))
    first = np.full(40, np.inf)
    for stream in data.streams:
        np.minimum.at(first, stream.inputs["item"].numpy(), stream.times.numpy())
    late = (first > 0.1).sum()
    assert 8 <= late <= 28  # about half of them, born evenly over nine tenths of the run


def test_without_new_items_all_items_are_there_from_the_start() -> None:
    data = synthetic(store(events=3000, new_items=0.0))
    early = torch.cat([s.inputs["item"][s.times < 0.2] for s in data.streams])
    assert len(early.unique()) == 30


def test_a_drifting_cluster_turns_into_another() -> None:
    kept, turned = (
        synthetic(store(events=8000, drift=d, changes=0, new_items=0.0, appeal=3.0, clusters=6)) for d in (0.0, 1.0)
    )

    def persistence(data: Dataset) -> float:
        each = [
            similarity(purchase_rates(data, e, 30, before=0.15), purchase_rates(data, e, 30, after=0.85))
            for e in range(6)
        ]
        return sum(each) / len(each)

    assert persistence(kept) > 0.9
    assert persistence(turned) < 0.6


def test_a_sudden_change_affects_a_single_cluster() -> None:
    calm, shaken = (
        synthetic(store(events=8000, changes=c, drift=0.0, new_items=0.0, edges=6, clusters=3, seed=1)) for c in (0, 1)
    )
    assert shaken.clusters is not None
    # The change alters purchases in some regions, compared with the same world without it.
    moved = {
        c
        for e, c in enumerate(shaken.clusters)
        if np.nanmax(np.abs(purchase_rates(calm, e, 30) - purchase_rates(shaken, e, 30))) > 0.2
    }
    assert len(moved) == 1


def test_regions_that_move_buy_like_their_new_cluster_from_half_way_on() -> None:
    calm = store(events=8000, drift=0.0, changes=0, new_items=0.0, appeal=3.0)
    stay, move = synthetic(calm), synthetic(msgspec.structs.replace(calm, moves=0.5))
    assert stay.clusters == move.clusters, "the clusters are those of the start"

    def kept(data: Dataset, edge: int) -> float:
        early, late = purchase_rates(data, edge, 30, before=0.5), purchase_rates(data, edge, 30, after=0.5)
        return similarity(early, late)

    moved = [e for e in range(6) if kept(move, e) < 0.5]
    assert len(moved) == 3
    assert all(kept(stay, e) > 0.9 for e in range(6))
    assert move.clusters is not None
    for e in moved:
        hosts = [o for o in range(6) if o not in moved and move.clusters[o] != move.clusters[e]]
        for host in hosts:
            late = (purchase_rates(move, x, 30, after=0.5) for x in (e, host))
            assert similarity(*late) > 0.9


def test_moves_leave_the_first_half_as_it_is() -> None:
    one, two = synthetic(store()), synthetic(store(moves=1.0))
    for a, b in zip(one.streams, two.streams, strict=True):
        early = a.times < 0.5
        assert torch.equal(a.labels[early], b.labels[early])
        assert all(torch.equal(a.inputs[f], b.inputs[f]) for f in a.inputs)
        assert not torch.equal(a.labels, b.labels)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("edges", 0), ("clusters", 0), ("events", 0), ("items", -1), ("users", 1.5), ("new_items", 1.1),
        ("drift", -0.1), ("changes", -1), ("appeal", -1.0), ("appeal", float("nan")), ("seed", -1), ("events", True),
        ("items", "many"), ("moves", 1.5),
    ],
)  # fmt: skip
def test_an_invalid_store_is_refused(field: str, bad: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        store(**{field: bad})
    assert caught.value.field == field
