"""What a pull costs: everything, the ids that both know, or only what has changed since."""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import polars as pl
import pytest
import torch

from alphaedge import Conditions, Dataset, Field, Greedy, Learned, MethodSettings, Random, Stream, simulate
from alphaedge.core.compression import Precision
from alphaedge.core.methods import alphaedge, nops, randps, uniweight
from alphaedge.simulation import engine
from alphaedge.simulation.world import World

from .fleets import factors, linear, measured, seen, shop, shop_model

SIZE = 4
DENSE = 2 * 4  # three weights and a bias, published in bfloat16
USER_ROW, ITEM_ROW = 2 * 2, 2 * 3
EVERY = 2


def visits(items: list[list[int]]) -> Dataset:
    """Edges whose batches name the given items, batch by batch, one each; user e is edge e's only one."""
    streams = []
    for edge, batches in enumerate(items):
        item = torch.tensor(batches).repeat_interleave(SIZE)
        n = len(item)
        inputs = {"user": torch.full((n,), edge), "item": item, "numbers": torch.zeros(n, 3)}
        streams.append(Stream(inputs, (torch.arange(n) % 2).float(), torch.arange(n).double()))
    fields = (Field("user", "id", 4), Field("item", "id", 8), Field("numbers", "number", 3))
    return Dataset("visits", "classify", fields, tuple(streams))


def model() -> Any:
    return factors(4, 8)


def run(data: Dataset, **settings: Any) -> Any:
    shared: dict[str, Any] = {
        "methods": {"m": uniweight(aggregate_every=EVERY, adopt_rows=False, precision="bfloat16")},
        "model": model,
        "batch_size": SIZE,
        "clock": "batch-index",
        "executor": "one-at-a-time",
    }
    return seen(data=data, **(shared | settings))


def pulled(found: Any, edge: int) -> dict[str, int]:
    full, common, changed = found.world.log.bytes[edge].tolist()
    return {"full": full, "common": common, "changed": changed}


def test_one_pull_by_hand() -> None:
    """By batch 1, edge 1 has trained user 1, items 3 and 5; edge 0 has met user 0, items 0 and 3."""
    found = run(visits([[0, 3], [3, 5]]))
    assert pulled(found, 0) == {
        "full": DENSE + USER_ROW + 2 * ITEM_ROW,
        "common": DENSE + ITEM_ROW,
        "changed": DENSE + ITEM_ROW,
    }
    # Edge 0 has trained item 0 as well, which edge 1 has never met.
    rows = USER_ROW + 2 * ITEM_ROW
    assert pulled(found, 1) == {"full": DENSE + rows, "common": DENSE + ITEM_ROW, "changed": DENSE + ITEM_ROW}


def test_a_second_pull_without_training_in_between_costs_the_dense_part_alone() -> None:
    """Edge 1's stream ends after two batches; edge 0 goes on and pulls the same publication again and again."""
    found = run(visits([[3] * 8, [3, 3]]))
    rows = USER_ROW + ITEM_ROW
    assert pulled(found, 0) == {
        "full": 4 * (DENSE + rows),
        "common": 4 * (DENSE + ITEM_ROW),
        "changed": 4 * DENSE + ITEM_ROW,
    }


def test_rows_that_the_receiver_meets_later_are_pulled_then() -> None:
    """Item 5 has been with the peer from the start, but edge 0 meets it only in its third period."""
    found = run(visits([[3, 3, 3, 3, 5, 5, 5, 5], [5, 5]]))
    assert pulled(found, 0)["changed"] == 4 * DENSE + ITEM_ROW
    assert pulled(found, 0)["common"] == 4 * DENSE + 2 * ITEM_ROW


def test_rows_that_the_sender_trains_again_are_pulled_again() -> None:
    found = run(visits([[3] * 8, [3, 3, 3, 3, 6, 6, 6, 6]]))
    # Publications at batches 1, 3, 5 and 7; item 3 is trained before the first three (batch 3 is learned after it).
    assert pulled(found, 0)["changed"] == 4 * DENSE + 3 * ITEM_ROW


def test_nothing_is_pulled_from_an_edge_that_is_down() -> None:
    found = run(visits([[3] * 4, [3] * 4]), conditions=Conditions(drop=1.0))
    assert int(found.world.log.bytes.sum()) == 0
    assert len(found.results.pulls) == 0


STORE = shop(edges=5, events=200)
LEARNED = Learned(weight_batches=1, steps=1)
MANY = {
    "alphaedge": alphaedge(aggregation=LEARNED, selection=Greedy(peers=2), aggregate_every=5, home=None),
    "randps": randps(aggregation=LEARNED, selection=Random(peers=2), aggregate_every=5, home=None),
    "nops": nops(aggregation=LEARNED, aggregate_every=5, home=None),
}


def test_full_is_at_least_common_is_at_least_changed() -> None:
    found = seen(
        methods=MANY, store=STORE, model=shop_model(STORE), batch_size=5, executor="one-at-a-time",
        conditions=Conditions(drop=0.2, staleness=1),
    )  # fmt: skip
    for world in found.worlds:
        full, common, changed = world.log.bytes.T
        assert bool((full >= common).all())
        assert bool((common >= changed).all())
        assert bool((full > common).any())
        assert bool((common > changed).any())
    for row in found.results.summary()["methods"].values():
        assert row["bytes"]["full"] > row["bytes"]["common"] > row["bytes"]["changed"] > 0
    # The table of pulls adds up to what the summary says was sent.
    for name, row in found.results.summary()["methods"].items():
        sent = found.results.pulls.filter(pl.col("method") == name)["bytes"].sum()
        assert sent == row["bytes"]["changed"]
    # Of what both know RandPS sends the larger share, for its peers are always new.
    share = {n: r["bytes"]["changed"] / r["bytes"]["common"] for n, r in found.results.summary()["methods"].items()}
    assert share["nops"] < share["randps"]


@pytest.mark.parametrize(("precision", "size"), [("int8", 3 + 2), ("bfloat16", 3 * 2), ("full", 3 * 4)])
@pytest.mark.parametrize("method", ["alphaedge", "fedweight"])
def test_without_id_tables_there_is_nothing_to_save(method: str, precision: Precision, size: int) -> None:
    found = simulate(
        methods=[method],
        data=measured(3, 20),
        model=linear,
        batch_size=5,
        method=MethodSettings(aggregate_every=5, precision=precision),
    )
    sent = found.summary()["methods"][method]["bytes"]
    assert sent["full"] == sent["common"] == sent["changed"] == size * found.pulls["count"].sum() > 0


def test_a_row_in_int8_is_a_byte_for_each_number_and_two_for_its_scale() -> None:
    found = run(visits([[0, 3], [3, 5]]), methods={"m": uniweight(aggregate_every=EVERY, precision="int8")})
    dense, user, item = 4 + 2, 2 + 2, 3 + 2
    assert pulled(found, 0) == {"full": dense + user + 2 * item, "common": dense + item, "changed": dense + item}


def test_rows_that_have_hardly_moved_are_not_pulled_again() -> None:
    found = run(
        visits([[3] * 8, [3, 3, 3, 3, 6, 6, 6, 6]]),
        methods={"m": uniweight(aggregate_every=EVERY, adopt_rows=False, precision="bfloat16", min_change=1e9)},
    )
    assert pulled(found, 0)["changed"] == 4 * DENSE + ITEM_ROW, "item 3 is published once"


def test_several_seeds_add_up() -> None:
    one, two = (
        simulate(methods=["uniweight"], data=measured(3, 40), model=linear, batch_size=5, seeds=s) for s in (1, 2)
    )
    full = [r.summary()["methods"]["uniweight"]["bytes"]["full"] for r in (one, two)]
    assert full[1] == 2 * full[0] > 0


@pytest.mark.parametrize("adopt", [True, False])
def test_an_id_that_only_peers_know_starts_from_their_rows_when_it_is_first_needed(adopt: bool) -> None:
    """Edge 0 meets item 5 in its second period, item 6 in its third; edge 1 knows both from the start."""
    after: list[torch.Tensor] = []
    real = engine.aggregate_group

    def aggregate_group(world: World, edges: list[int], block: int, lost: Sequence[int]) -> None:
        real(world, edges, block, lost)
        after.append(world.models.tables[1].value[0].clone())

    with mock.patch.object(engine, "aggregate_group", aggregate_group):
        found = run(
            visits([[3, 3, 3, 5, 6, 6], [5, 6, 5, 6, 5, 6]]),
            methods={"m": uniweight(aggregate_every=EVERY, adopt_rows=adopt)},
            rate=0.1,
        )
    own = found.world.batches.own_rows[1]
    assert own.named[0].tolist()[:-1] == [3, 5, 6]  # a row for each id that it meets, and none for others
    first, second, _ = ({3: x[0], 5: x[1], 6: x[2]} for x in after[-3:])  # before them is a group in which both join
    initial = found.world.gradients.model.initial_table(1)
    # At the first aggregation edge 1 has trained item 5 alone, which edge 0 needs before the next.
    assert torch.equal(first[5], initial[5]) != adopt
    assert torch.equal(first[6], initial[6])
    # At the second it has trained both; edge 0 needs item 6 now.
    assert torch.equal(second[6], initial[6]) != adopt


def test_a_publication_adds_no_more_bytes_of_rows_than_the_budget_and_the_others_follow() -> None:
    budget, row = 12, 3 + 2  # of an item in int8; a user takes one less
    shared: dict[str, Any] = {"data": visits([[0, 1, 2, 3, 0, 0, 0, 0]] * 2)}
    whole, part = (
        run(**shared, methods={"m": uniweight(aggregate_every=2, adopt_rows=False, publish_bytes=some)}).world
        for some in (None, budget)
    )
    versions = part.published.version[1][:, 0].amax(0)
    assert torch.equal(versions > 0, whole.published.version[1][:, 0].amax(0) > 0), "in the end, all are published"
    for number in range(1, 5):
        assert row * int((versions == number).sum()) <= budget
    assert part.log.bytes[:, 2].sum() < whole.log.bytes[:, 2].sum()
