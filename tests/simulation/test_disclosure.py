"""What edges of a simulation name to each other, with a minimum of users and with tables that stay at home."""

from typing import Any

import pytest
import torch

from alphaedge import Conditions, Dataset
from alphaedge.core.disclosure import Disclosure
from alphaedge.core.methods import Method, alphaedge, fedweight
from alphaedge.simulation.world import World

from .fleets import predictions, seen, shop, shop_data, shop_model, shortened

SIZE, LEAST = 5, 3
SHOP = shortened(shop_data(edges=4, users=10, items=30), 5 * 30)
USERS, ITEMS = 0, 1  # id tables


def run(method: Method, data: Dataset = SHOP, **settings: Any) -> World:
    shared: dict[str, Any] = {"data": data, "model": shop_model(shop(edges=4, users=10, items=30)), "batch_size": SIZE}
    return seen(methods={"m": method}, **(shared | settings)).world


def users_behind(edge: int, field: str, batches: int) -> dict[int, set[int]]:
    """By id, the users of an edge's first batches."""
    stream, found = SHOP.streams[edge], dict[int, set[int]]()
    for named, user in zip(
        stream.inputs[field][: batches * SIZE], stream.inputs["user"][: batches * SIZE], strict=True
    ):
        for one in named.flatten().tolist() if named.dim() else [int(named)]:
            found.setdefault(one, set()).add(int(user))
    return found


@pytest.mark.parametrize(
    "conditions", [Conditions(), Conditions(delay=2, drop=0.3, staleness=1)], ids=["plain", "rough"]
)
@pytest.mark.parametrize("executor", ["stacked", "one-at-a-time"])
def test_no_row_is_published_before_enough_users_stand_behind_it(executor: str, conditions: Conditions) -> None:
    method = alphaedge(disclosure=Disclosure(min_users=LEAST, user="user"), aggregate_every=4)
    world = run(method, conditions=conditions, executor=executor)
    own = world.batches.own_rows[ITEMS].named
    published = kept = 0
    for edge in range(world.n):
        behind = users_behind(edge, "item", world.at[edge])
        version = world.published.version[ITEMS][:, edge].amax(0)
        for row, item in enumerate(own[edge].tolist()):
            if row < len(version) - 1 and int(version[row]):
                assert len(behind[item]) >= LEAST
                published += 1
            elif 0 < len(behind.get(item, ())) < LEAST:
                kept += 1
    assert published > 20, "some rows are published"
    assert kept > 5, "and some wait"
    assert not world.published.version[USERS].any(), "behind a user there is one user"


def test_an_edge_asks_for_no_id_that_it_may_not_name() -> None:
    every, few = (
        run(alphaedge(aggregate_every=4, disclosure=disclosure))
        for disclosure in (None, Disclosure(min_users=LEAST, user="user"))
    )
    assert not few.named.since[USERS].ge(0).any()
    met, named = every.named.since[ITEMS] >= 0, few.named.since[ITEMS] >= 0
    assert bool((named <= met).all())
    assert 0 < int(named.sum()) < int(met.sum())
    assert few.log.bytes[:, 2].sum() < every.log.bytes[:, 2].sum()


def test_nothing_of_a_local_table_leaves() -> None:
    world = run(alphaedge(aggregate_every=4, disclosure=Disclosure(local=("user",))))
    assert not world.published.version[USERS].any()
    assert not world.named.since[USERS].ge(0).any()
    assert world.published.version[ITEMS].any()


def test_without_peers_nothing_changes() -> None:
    disclosure = Disclosure(min_users=LEAST, user="user", local=("item",))
    for make in (alphaedge, fedweight):
        world = run(make(disclosure=disclosure, aggregate_every=1000))
        plain = run(make(aggregate_every=1000))
        for edge in range(world.n):
            assert torch.equal(predictions(world, edge), predictions(plain, edge))


def test_a_minimum_of_one_user_names_every_id() -> None:
    world, plain = run(alphaedge(disclosure=Disclosure(), aggregate_every=4)), run(alphaedge(aggregate_every=4))
    for edge in range(world.n):
        assert torch.equal(predictions(world, edge), predictions(plain, edge))


def test_events_count_where_no_user_is_named() -> None:
    world = run(alphaedge(aggregate_every=4, disclosure=Disclosure(min_users=LEAST)))
    own = world.batches.own_rows[USERS].named
    found = set()
    for edge in range(world.n):
        counts = torch.bincount(SHOP.streams[edge].inputs["user"][: world.at[edge] * SIZE], minlength=11)
        version = world.published.version[USERS][:, edge].amax(0)
        for row, user in enumerate(own[edge].tolist()):
            if row < len(version) - 1 and int(version[row]):
                assert int(counts[user]) >= LEAST
                found.add((edge, user))
    assert len(found) > 10
