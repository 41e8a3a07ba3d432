"""Rows of ids that an edge does not know yet wait with the peer's model, bounded in number, for a cold start."""

import torch

from alphaedge.edge.learning.cold_start import find_held
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.publication import PulledModel

from .test_learner import Fleet, shop_fleet


def told(fleet: Fleet, keys: list[int], value: float = 1.0) -> PulledModel:
    """A publication with rows of these ids in every table."""
    tables = fleet.edges["0"].tables
    rows = tuple(torch.full((len(keys), t.published.shape[1]), value, dtype=t.published.dtype) for t in tables)
    dense = fleet.edges["0"].mixed.dense[0]
    return PulledModel(1, 10, dense, {}, tuple(torch.tensor(keys) for _ in tables), rows)


def test_a_row_of_an_unknown_id_waits_until_the_id_is_known_and_then_counts_from_the_next_pull_on() -> None:
    fleet = shop_fleet()
    me = fleet.edges["0"]
    held = HeldModel(me.mixed.dense[0], me.tables)
    me.admit(0, torch.tensor([3]))
    held.take(told(fleet, [3, 5]), me.tables, 0)
    row = me.tables[0].rows(torch.tensor([3]))
    assert bool(held.has[0][row])
    assert held.others[0].keys.tolist() == [5]
    found = find_held({"1": held}, [torch.tensor([5, 6]), *[torch.tensor([], dtype=torch.long)] * 9][: len(me.tables)])
    assert found["1"].keys[0].tolist() == [5]
    assert float(found["1"].rows[0].mean()) == 1.0
    assert find_held({"1": held}, [torch.tensor([6]) for _ in me.tables]) == {}

    me.tables[0].admit(torch.tensor([5]), 1)  # after the pull for aggregation 0
    held.take(told(fleet, []), me.tables, 0)
    assert held.others[0].keys.tolist() == [5]
    held.take(told(fleet, []), me.tables, 1)
    assert bool(held.has[0][me.tables[0].rows(torch.tensor([5]))])
    assert held.others[0].keys.tolist() == []


def test_newer_rows_take_the_place_of_older_ones_and_there_are_never_more_than_the_table_may_have() -> None:
    fleet = shop_fleet(capacity=8)
    me = fleet.edges["0"]
    held = HeldModel(me.mixed.dense[0], me.tables)
    held.take(told(fleet, list(range(100, 106))), me.tables, 0)
    held.take(told(fleet, list(range(104, 110)), value=2.0), me.tables, 0)
    others = held.others[0]
    assert others.keys.tolist() == list(range(102, 110))
    assert others.find(torch.tensor([103, 104])).rows[:, 0].tolist() == [1.0, 2.0]


def test_who_names_the_ids_of_a_request_keeps_no_other_rows() -> None:
    fleet = shop_fleet()
    me = fleet.edges["0"]
    held = HeldModel(me.mixed.dense[0], me.tables)
    held.take(told(fleet, [3, 5]), me.tables)
    assert all(not len(others.keys) for others in held.others)
