"""Edges have rows for the ids of their own events alone, and find them in each other's numbering."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from alphaedge import Conditions, Store, simulate
from alphaedge.simulation.memory.own_rows import OwnRows

from ..fleets import seen, shop, shop_model

TABLE = 12
fleets = st.lists(st.lists(st.integers(0, TABLE - 1), min_size=1, max_size=9), min_size=1, max_size=4)


def rows_of(fleet: list[list[int]]) -> OwnRows:
    return OwnRows.of(TABLE, [torch.tensor(ids) for ids in fleet])


@given(fleets)
def test_an_edge_has_a_place_for_each_of_its_ids_and_no_other(fleet: list[list[int]]) -> None:
    own = rows_of(fleet)
    for edge, ids in enumerate(fleet):
        assert [row for row in own.named[edge].tolist() if row != TABLE] == sorted(set(ids))
        places = own.renumber(edge, torch.tensor([*ids, TABLE]))
        assert own.named[edge][places].tolist() == [*ids, TABLE]
        assert int(places[-1]) == own.scratch
        assert own.scratch not in places[:-1].tolist()


@given(fleets)
def test_a_peer_has_an_edges_rows_where_it_met_the_same_ids(fleet: list[list[int]]) -> None:
    own = rows_of(fleet)
    everybody = torch.arange(len(fleet))
    found = own.places(everybody, everybody.repeat(len(fleet), 1))
    for edge, ids in enumerate(fleet):
        for peer, others in enumerate(fleet):
            for mine, theirs in zip(own.named[edge].tolist(), found[edge, peer].tolist(), strict=True):
                if mine in set(ids) & set(others):
                    assert own.named[peer, theirs] == mine
                else:
                    assert theirs == own.scratch


@given(fleets, fleets)
def test_fleets_that_are_joined_keep_their_rows(one: list[list[int]], other: list[list[int]]) -> None:
    assert torch.equal(OwnRows.joined([rows_of(one), rows_of(other)]).named, rows_of(one + other).named)


def test_who_has_every_row_has_the_numbering_of_the_table() -> None:
    own = OwnRows.every(TABLE, 2)
    assert own.renumber(1, torch.tensor([3, TABLE])).tolist() == [3, TABLE]
    assert own.places(torch.tensor([0]), torch.tensor([[1]]))[0, 0].tolist() == list(range(TABLE + 1))


def test_tables_do_not_grow_with_ids_that_only_others_meet() -> None:
    small, large = shop(edges=3), shop(edges=9)  # each region has users of its own
    sizes = [
        seen(store=store, model=shop_model(store), methods=["noagg"], batch_size=20).world.models.tables[0].value.shape
        for store in (small, large)
    ]
    assert sizes[0][1] == sizes[1][1] == small.users + 1


def test_it_makes_no_difference_whether_edges_have_rows_that_they_never_use() -> None:
    """An attack that claims all rows needs them; with a share of hostile edges that rounds to none, nothing else."""
    store = Store(edges=5, clusters=2, events=500, items=25, users=10, categories=4)
    runs = [
        simulate(
            store=store,
            model=shop_model(store),
            methods=["alphaedge", "fedweight"],
            batch_size=20,
            conditions=conditions,
        )
        for conditions in (Conditions(), Conditions(adversaries=0.01, attack="poisoned-rows"))
    ]
    assert runs[0].scores.equals(runs[1].scores)
    assert runs[0].pulls.equals(runs[1].pulls)
