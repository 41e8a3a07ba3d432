"""Rounds of simulated edges: pulls read publications of the right age, and an edge that is down has no effect."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from alphaedge import Conditions, Learned, Method, simulate
from alphaedge.core.aggregation import HeldModels
from alphaedge.core.compression import compress_dense
from alphaedge.core.gradients import Gradients
from alphaedge.core.methods import alphaedge, alphaedge_paper, fedweight, noagg, nops, uniweight
from alphaedge.core.round import Round
from alphaedge.core.state import ModelState
from alphaedge.simulation import rounds
from alphaedge.simulation.publications import Publications
from alphaedge.simulation.world import World

from .fleets import linear, measured, seen, shop, shop_data, shop_model, shortened

SIZE = 5


def rounded(numbers: Tensor) -> Tensor:
    return compress_dense(numbers, numbers[..., :0], "bfloat16").published


class PublicationWatch:
    """Keeps every publication, and checks the models that each round holds against it."""

    def __init__(self, staleness: int) -> None:
        self.staleness = staleness
        self.log: dict[int, list[list[Tensor]]] = {}
        self.moments: dict[int, list[float]] = {}  # of the publications in the log, the initial model aside
        self.numbers: list[int] = []

    @contextmanager
    def watching(self) -> Iterator["PublicationWatch"]:
        real_publish, real_start = Publications.publish, Publications.__init__
        real_group_mix, real_mix = rounds._mix, rounds.mix
        real_world_publish = World.publish
        peers: list[list[int]] = []
        moments: list[float] = []
        rows: list[list[Tensor]] = []  # for each mixing edge, per table, where its peers have its rows

        def world_publish(world: World, edges: list[int]) -> None:
            for edge in edges:
                self.moments.setdefault(edge, []).append(world.moment[edge])
            real_world_publish(world, edges)

        def start(published: Publications, state: ModelState, *args: Any) -> None:
            real_start(published, state, *args)
            for edge in range(len(state)):
                tables = [torch.full_like(t.value[edge], torch.nan) for t in state.tables]  # never trained
                self.log[edge] = [[rounded(state.dense[edge]), *tables]]

        def publish(published: Publications, edges: Tensor, state: ModelState, *args: Any) -> None:
            to_publish = [flags.clone() for flags in args[0]]
            real_publish(published, edges, state, *args)
            for edge in edges.tolist():
                tables = []
                for table, flags, before in zip(state.tables, to_publish, self.log[edge][-1][1:], strict=True):
                    tables.append(torch.where(flags[edge].unsqueeze(1), rounded(table.value[edge]), before))
                self.log[edge].append([rounded(state.dense[edge]), *tables])

        def group_mix(world: World, edges: list[int]) -> None:
            mixing = [e for e in edges if any(world.present(e, world.links[e].neighbours))]
            peers[:] = [[world.base(e) + j for j in world.links[e].neighbours] for e in mixing]
            moments[:] = [world.moment[e] for e in mixing]
            near = zip(mixing, peers, strict=True)
            rows[:] = [[where[0] for where in world.rows_at([e], [some])] for e, some in near]
            real_group_mix(world, edges)

        def mix(method: Method, gradients: Gradients, round: Round) -> list[list[float]]:
            held = round.held
            columns = (held.index.tolist(), held.present.tolist(), peers, moments, rows)
            for row, there, theirs, moment, where in zip(*columns, strict=True):
                for place, (slot, answered, peer) in enumerate(zip(row, there, theirs, strict=False)):
                    if answered:
                        self.check(held, slot, peer, moment, [table[place] for table in where])
            return real_mix(method, gradients, round)

        with (
            mock.patch.object(Publications, "__init__", start),
            mock.patch.object(Publications, "publish", publish),
            mock.patch.object(World, "publish", world_publish),
            mock.patch.object(rounds, "_mix", group_mix),
            mock.patch.object(rounds, "mix", mix),
        ):
            yield self

    def check(self, held: HeldModels, slot: int, peer: int, moment: float, rows: list[Tensor]) -> None:
        """What is held is what the peer had published at the moment of the mix, so many publications ago."""
        published = self.log[peer]
        newest = sum(at <= moment for at in self.moments[peer])
        number = max(0, newest - self.staleness)
        self.numbers.append(number)
        dense, *tables = published[number]
        assert torch.equal(held.dense[slot], dense)
        for pool, has, published_rows, where in zip(held.tables, held.has, tables, rows, strict=True):
            expected = published_rows[where]
            assert torch.equal(has[slot], ~expected.isnan().any(1))
            assert torch.equal(pool[slot][has[slot]], expected[has[slot]])


@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_pulls_read_the_publication_of_the_right_age(staleness: int, clock: str) -> None:
    """Dense part and id tables, in which only rows trained since the last publication have changed."""
    data = shortened(shop_data(edges=4, events=200), 150)
    learned = Learned(weight_batches=1, steps=1)
    method = nops(aggregation=learned, aggregate_every=5, home=None, precision="bfloat16")
    with PublicationWatch(staleness).watching() as watch:
        found = simulate(
            methods={"m": method},
            data=data,
            model=shop_model(shop(edges=4)),
            batch_size=SIZE,
            clock=clock,
            executor="one-at-a-time",
            conditions=Conditions(staleness=staleness),
        )
    assert max(watch.numbers) >= 5 - staleness
    beyond = sum(number == 0 for number in watch.numbers)
    notes = [m for m in found.summary()["messages"] if "initial model" in m]
    assert notes == (
        [f"{beyond} pulls were staler than their peer was old: they got its initial model"] if beyond else []
    )
    assert bool(beyond) == bool(staleness)


def test_in_lock_step_the_first_aggregations_reach_beyond_the_start() -> None:
    found = simulate(
        methods={"m": uniweight(aggregate_every=5)},
        data=measured(3, 30),
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
        clock="batch-index",
        conditions=Conditions(staleness=2),
    )
    # Six aggregations; at the first two the newest publication is the first or second: 2 ago is the initial model.
    assert found.summary()["messages"][-1].startswith(f"{2 * 3 * 2} pulls were staler")


def test_without_staleness_nothing_is_said_of_it() -> None:
    found = simulate(
        methods=["uniweight"], data=measured(3, 30), model=linear, batch_size=SIZE, executor="one-at-a-time"
    )
    assert not [m for m in found.summary()["messages"] if "staler" in m]


def test_records_are_counted_as_of_the_publication() -> None:
    """FedWeight's shares are records learned so far: own ones now, a peer's when it published."""
    counts = [40, 22]
    found = seen(
        data=measured(2, counts, SIZE),
        methods={"m": fedweight(aggregate_every=5)},
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
        clock="batch-index",
    )
    assert len(found.world.log.mixes[0]) == 8
    # Aggregation a is at batch 5a + 4. What is published has learned from that batch, what is mixed of the own has not.
    for a, mix in enumerate(found.world.log.mixes[0]):
        own = 5 * a + 4
        theirs = min(own + 1, 20)  # edge 1 publishes last at batch 19, although it learns from two more
        assert mix.own == pytest.approx(own / (own + theirs), abs=1e-6)


def test_uniweight_takes_the_plain_mean() -> None:
    found = seen(
        data=measured(3, 20),
        methods={"m": uniweight(aggregate_every=5)},
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
    )
    shares = found.results.weights["share"]
    assert shares.to_list() == pytest.approx([1 / 3] * len(shares), abs=1e-6)


def alone_and(method: Method, conditions: Conditions, **settings: Any) -> tuple[World, World]:
    shared: dict[str, Any] = {
        "data": measured(4, [30, 25, 41, 33]),
        "model": linear,
        "rate": 0.05,
        "batch_size": SIZE,
        "conditions": conditions,
        "executor": "one-at-a-time",
    } | settings
    found = seen(methods={"m": method, "noagg": noagg()}, **shared)
    return found.worlds[0], found.worlds[1]


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
@pytest.mark.parametrize("paper", [False, True])
def test_with_everybody_down_alphaedge_learns_as_if_alone(clock: str, paper: bool) -> None:
    """It trains on the aggregation batch then, even where it would leave it out after a mix."""
    method = alphaedge_paper() if paper else alphaedge(aggregation=Learned(weight_batches=1), home=None)
    one, alone = alone_and(replace(method, aggregate_every=5), Conditions(drop=1.0), clock=clock)
    assert torch.equal(one.log.predictions, alone.log.predictions)
    assert not any(one.log.mixes)
    assert int(one.log.bytes.sum()) == 0


def test_with_everybody_up_it_does_not() -> None:
    method = alphaedge(aggregation=Learned(weight_batches=1), home=None, aggregate_every=5)
    one, alone = alone_and(method, Conditions())
    assert not torch.allclose(one.log.predictions, alone.log.predictions, atol=1e-3)


def always_down(*edges: int) -> Any:
    """Some edges are down all the time."""
    real = Conditions.draw_outages

    def draw(self: Conditions, edge: int, periods: int, seed: int) -> Any:
        return real(self, edge, periods, seed) | (edge in edges)

    return mock.patch.object(Conditions, "draw_outages", draw)


@pytest.mark.parametrize("pull", [True, False])
def test_an_edge_that_is_down_learns_on_is_not_pulled_from_and_pulls_if_it_may(pull: bool) -> None:
    with always_down(1):
        found = seen(
            methods={"m": uniweight(aggregate_every=5)},
            data=measured(3, 20),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
            clock="batch-index",
            conditions=Conditions(down_edges_pull=pull),
        )
    pairs = set(found.results.pulls.select("edge", "peer").rows())
    assert pairs == {(0, 2), (2, 0)} | ({(1, 0), (1, 2)} if pull else set())
    assert found.world.records.tolist() == [19 * SIZE, (19 if pull else 20) * SIZE, 19 * SIZE], "no mix, no going back"
    shares = {(e, p): s for e, p, s in found.results.weights.select("edge", "peer", "share").rows()}
    assert shares[0, 1] == 0.0
    assert shares[0, 0] == pytest.approx(0.5)


def test_a_peer_that_is_down_stays_a_neighbour_and_keeps_its_weight() -> None:
    with always_down(1):
        found = seen(
            methods={"m": nops(aggregation=Learned(weight_batches=1, rate=0.05), aggregate_every=5, home=None)},
            data=measured(3, 20),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
        )
    for edge in (0, 2):
        links = found.world.links[edge]
        assert 1 in links.neighbours
        assert links.known[1].weight == 1.0
        assert links.known[2 - edge].weight != 1.0


def test_half_of_the_pulls_fail_when_edges_are_down_half_of_the_time() -> None:
    up, down = (
        simulate(
            methods={"m": uniweight(aggregate_every=2)},
            data=measured(6, 40),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
            clock="batch-index",
            conditions=Conditions(drop=d),
        ).pulls["count"].sum()
        for d in (0.0, 0.5)
    )  # fmt: skip
    assert up == 20 * 6 * 5
    assert down / up == pytest.approx(0.5, abs=0.1)
