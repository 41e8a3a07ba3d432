"""Who does what when: batches in order, mixes in time order, gathered batches learned after the mix."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from unittest import mock

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alphaedge import (
    AlphaEdge,
    Conditions,
    Dataset,
    Everybody,
    FedWeight,
    Greedy,
    Home,
    Learned,
    Method,
    MethodSettings,
    NoAgg,
    NoPS,
    RandPS,
    UniWeight,
    simulate,
)
from alphaedge.core.state import ModelState
from alphaedge.simulation import engine
from alphaedge.simulation import rounds as meeting
from alphaedge.simulation.engine import Engine
from alphaedge.simulation.publications import Publications
from alphaedge.simulation.task import make_model
from alphaedge.simulation.training_span import TrainingSpan
from alphaedge.simulation.world import World

from .fleets import Seen, linear, measured, normalised, predictions, seen, shop, shop_data, shop_model, shortened

SIZE = 5


@dataclass
class History:
    """What one edge did, in order."""

    predicted: list[int] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    twin_learned: list[int] = field(default_factory=list)
    # For each mix: the batch at which it was, and the batches learned before it.
    mixes: list[tuple[int, set[int]]] = field(default_factory=list)
    # For each batch learned, the newest batch predicted before.
    learned_at: dict[int, int] = field(default_factory=dict)


def histories(*, pretend: bool = False, **settings: Any) -> tuple[Seen, list[History]]:
    """Run and note what each edge does; with ``pretend`` nothing is computed but the plan."""
    log: dict[int, History] = {}
    real_run, real_meet = engine.run_stretch, engine.meet
    main: list[ModelState] = []

    def run(fleet: ModelState, stretch: TrainingSpan, *args: Any, **kwargs: Any) -> Tensor:
        for edge, predicted, learned in zip(
            stretch.edges.tolist(), stretch.predicted.tolist(), stretch.trained.tolist(), strict=True
        ):
            history = log.setdefault(edge, History())
            for p, t in zip(predicted, learned, strict=True):
                if fleet is not main[0]:
                    history.twin_learned += [t] if t >= 0 else []
                    continue
                if p >= 0:
                    history.predicted.append(p)
                if t >= 0:
                    history.learned.append(t)
                    history.learned_at[t] = history.predicted[-1]
        return torch.zeros(*stretch.predicted.shape, SIZE) if pretend else real_run(fleet, stretch, *args, **kwargs)

    def aggregate_group(world: World, edges: list[int], block: int) -> None:
        before = [len(world.record.mixes[e]) for e in edges]
        real_meet(world, edges, block)
        for edge, count in zip(edges, before, strict=True):
            if len(world.record.mixes[edge]) > count:
                history = log[edge]
                history.mixes.append((history.predicted[-1], set(history.learned)))

    def start(self: Engine, world: World, *args: Any, **kwargs: Any) -> None:
        main.append(world.fleet)
        real_start(self, world, *args, **kwargs)

    real_start = Engine.__init__
    with (
        mock.patch.object(engine, "run_stretch", run),
        mock.patch.object(engine, "meet", aggregate_group),
        mock.patch.object(Engine, "__init__", start),
    ):
        found = seen(batch_size=SIZE, model=linear, executor="one-at-a-time", **settings)
    return found, [log[e] for e in sorted(log)]


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    gather = draw(st.integers(1, 3))
    every = draw(st.integers(gather, 7))
    home = Home() if draw(st.booleans()) else None
    edges = 3
    joins = {1: draw(st.sampled_from([0.1, 0.35, 0.8]))} if draw(st.booleans()) else {}
    leaves = {2: draw(st.sampled_from([0.3, 0.9]))} if draw(st.booleans()) else {}
    return {
        "data": measured(edges, draw(st.lists(st.integers(1, 25), min_size=edges, max_size=edges)), SIZE),
        "methods": {
            "m": NoPS(
                aggregation=Learned(batches=gather, steps=1),
                aggregate_every=every,
                train_on_aggregation=draw(st.booleans()),
                home=home,
            )
        },
        "clock": draw(st.sampled_from(["event-time", "batch-index"])),
        "conditions": Conditions(
            delay=draw(st.integers(0, 6)), drop=draw(st.sampled_from([0.0, 0.5])), joins=joins, leaves=leaves
        ),
    }


@given(plans())
@settings(max_examples=40)
def test_every_plan_keeps_the_rules(plan: dict[str, Any]) -> None:
    found, log = histories(pretend=True, **plan)
    world, method, delay = found.world, plan["methods"]["m"], plan["conditions"].delay
    gather, timeline = method.gathered, world.timelines[0]
    with_batches = [e for e in range(3) if timeline.first[e] < timeline.last[e]]
    assert len(log) == len(with_batches)
    for edge, did in zip(with_batches, log, strict=True):
        first, last = timeline.first[edge], timeline.last[edge]
        # Each batch is predicted once, in order.
        assert did.predicted == list(range(first, last))
        # What is learned is learned once, in order, and only when it is revealed.
        assert did.learned == sorted(set(did.learned))
        assert all(at >= batch + delay for batch, at in did.learned_at.items())
        left_out: set[int] = set()
        for at, before in did.mixes:
            # An aggregation is at every E-th batch, and learns its weights on the newest revealed batches ...
            origin = first if plan["clock"] == "event-time" else 0
            assert (at - origin + 1) % method.aggregate_every == 0
            about = set(range(at - delay - gather + 1, at - delay + 1))
            # ... which the edge has not been trained on before, unlike all that came earlier.
            assert not about & before
            assert before | left_out == set(range(first, at - delay - gather + 1))
            if not method.train_on_aggregation:
                left_out |= about
        assert not left_out & set(did.learned)
        # All else is learned, but for what is revealed too late.
        reached = max([first - 1, *did.learned, *left_out])
        assert set(did.learned) | left_out == set(range(first, reached + 1))
        assert reached >= last - 1 - delay - gather
        if method.home:
            assert did.twin_learned == list(range(first, max([first - 1, *did.twin_learned]) + 1))
            assert set(did.twin_learned) >= set(did.learned)
        assert int(world.records[edge]) == SIZE * len(did.learned)


def test_gathered_batches_are_predicted_and_scored_but_learned_after_the_mix() -> None:
    method = AlphaEdge(aggregation=Learned(batches=3), aggregate_every=8, home=None)
    found, log = histories(data=measured(3, 24), methods={"m": method}, clock="batch-index")
    for edge, did in enumerate(log):
        assert [at for at, _ in did.mixes] == [7, 15, 23]
        assert did.mixes[0][1] == {0, 1, 2, 3, 4}
        assert did.learned_at[5] == did.learned_at[7] == 7
        assert did.learned_at[8] == 8
        scores = found.results.scores.filter(pl.col("edge") == edge)
        assert scores["batch"].to_list() == list(range(24))
        assert scores["score"].is_not_null().all()
        # During the pause the model stands still.
        before = [fitted(found.world, measured(3, 24), edge, t) for t in range(24)]
        still = [torch.allclose(a, b, atol=1e-5) for a, b in pairwise(before)]
        assert still == [t % 8 in (5, 6) for t in range(23)]


def fitted(world: World, data: Dataset, edge: int, t: int) -> Tensor:
    """The two weights and the bias of the linear model that predicted a batch, from its predictions."""
    x = data.streams[edge].inputs["x"][t * SIZE : t * SIZE + SIZE]
    found: Tensor = torch.linalg.lstsq(torch.cat([x, torch.ones(SIZE, 1)], 1), predictions(world, edge)[t]).solution
    return found


@pytest.mark.parametrize(("trained", "left"), [(True, 24 - 3), (False, 24 - 9)])
def test_train_on_aggregation_decides_whether_gathered_batches_are_learned_at_all(trained: bool, left: int) -> None:
    """The last aggregation is at the very end, so what it gathered is never learned."""
    method = AlphaEdge(aggregation=Learned(batches=3), aggregate_every=8, home=None, train_on_aggregation=trained)
    found, log = histories(data=measured(3, 24), methods={"m": method}, clock="batch-index")
    assert found.world.records.tolist() == [left * SIZE] * 3
    assert [len(did.learned) for did in log] == [left] * 3
    assert int(found.world.fleet.steps[0]) == left


def test_records_are_counted_as_of_the_fetched_model() -> None:
    """FedWeight's shares are records learned so far: own ones now, a peer's when it published."""
    counts = [40, 22]
    found = seen(
        data=measured(2, counts, SIZE),
        methods={"m": FedWeight(aggregate_every=5)},
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
        clock="batch-index",
    )
    assert len(found.world.record.mixes[0]) == 8
    # Aggregation a is at batch 5a + 4; the batch itself is learned after it.
    for a, mix in enumerate(found.world.record.mixes[0]):
        own = 5 * a + 4
        theirs = min(own, 19)  # edge 1 publishes last at batch 19, although it learns from three more
        assert mix.own == pytest.approx(own / (own + theirs), abs=1e-6)


def test_uniweight_takes_the_plain_mean() -> None:
    found = seen(
        data=measured(3, 20),
        methods={"m": UniWeight(aggregate_every=5)},
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
    )
    shares = found.results.weights["share"]
    assert shares.to_list() == pytest.approx([1 / 3] * len(shares), abs=1e-6)


@contextmanager
def one_moment_after_the_other() -> Iterator[None]:
    """Nothing side by side: each round is the events of the earliest moment, and no others."""

    def due(self: Engine) -> list[list[int]]:
        world = self.world
        waiting = [e for e in range(len(world.fleet)) if world.state[e] in ("to join", "to aggregate")]
        soonest = min((world.moment[e] for e in waiting), default=0.0)
        return [[e for e in waiting if world.moment[e] == soonest]] if waiting else []

    with mock.patch.object(Engine, "_due", due):
        yield


def uneven(edge: int, events: int) -> Tensor:
    """Busy and quiet times, different for each edge, with many ties between edges."""
    steps = torch.rand(events, generator=torch.Generator().manual_seed(edge)) ** 3
    days = torch.cumsum(steps, 0)
    return (days / days[-1] * 40).round().double()


ONE_STEP = Learned(batches=1, steps=1)
SIDE_BY_SIDE: list[tuple[str, Method, Conditions]] = [
    ("greedy", AlphaEdge(selection=Greedy(peers=2), aggregate_every=4, aggregation=ONE_STEP), Conditions()),
    ("random", RandPS(aggregate_every=3, aggregation=ONE_STEP, home=None), Conditions(drop=0.3, staleness=1)),
    ("records", FedWeight(aggregate_every=3), Conditions(delay=2, leaves={1: 0.6})),
    ("everybody", UniWeight(selection=Everybody(), aggregate_every=3), Conditions(joins={0: 0.0, 2: 0.4, 3: 0.55})),
    ("mixed", UniWeight(publish="mixed", aggregate_every=3), Conditions(drop=0.2)),
    ("mixed and late", UniWeight(publish="mixed", aggregate_every=3), Conditions(joins={2: 0.4, 3: 0.55})),
    ("alone", NoAgg(aggregate_every=3), Conditions(joins={2: 0.4})),
]


@pytest.mark.parametrize(("name", "method", "conditions"), SIDE_BY_SIDE, ids=[s[0] for s in SIDE_BY_SIDE])
@pytest.mark.parametrize("clock", ["event-time", pytest.param("batch-index", marks=pytest.mark.long)])
def test_side_by_side_is_as_one_moment_after_the_other(
    name: str, method: Method, conditions: Conditions, clock: str
) -> None:
    data = measured(6, [13, 19, 16, 9, 21, 14], SIZE, times=uneven)
    shared: dict[str, Any] = {
        "data": data,
        "methods": {"m": method},
        "conditions": conditions,
        "model": linear,
        "rate": 0.05,
        "batch_size": SIZE,
        "clock": clock,
        "executor": "one-at-a-time",
    }
    together = seen(**shared)
    with one_moment_after_the_other():
        in_turn = seen(**shared)
    assert torch.allclose(
        together.world.record.predictions, in_turn.world.record.predictions, atol=1e-5, equal_nan=True
    )
    assert [links.neighbours for links in together.world.links] == [links.neighbours for links in in_turn.world.links]
    for frame in ("fetches", "weights"):
        one, two = (getattr(r.results, frame) for r in (together, in_turn))
        values = [c for c in one.columns if c != "share"]
        assert one.select(values).equals(two.select(values))


class Fetching:
    """Keeps every publication, and checks what each mix fetches against it."""

    def __init__(self, staleness: int) -> None:
        self.staleness = staleness
        self.log: dict[int, list[list[Tensor]]] = {}
        self.numbers: list[int] = []

    @contextmanager
    def watching(self) -> Iterator["Fetching"]:
        real_publish, real_start = Publications.publish, Publications.__init__
        real_mix, real_aggregate = meeting._mix, meeting.aggregate
        peers: list[list[int]] = []

        def start(published: Publications, fleet: ModelState, *args: Any) -> None:
            real_start(published, fleet, *args)
            for edge in range(len(fleet)):
                rows = [torch.full_like(t.value[edge], torch.nan) for t in fleet.tables]  # never trained
                self.log[edge] = [[fleet.dense[edge].clone(), *rows]]

        def publish(
            published: Publications, edges: Tensor, fleet: ModelState, trained: list[Tensor], records: Tensor
        ) -> None:
            real_publish(published, edges, fleet, trained, records)
            for edge in edges.tolist():
                rows = []
                for table, flags, before in zip(fleet.tables, trained, self.log[edge][-1][1:], strict=True):
                    rows.append(torch.where(flags[edge].unsqueeze(1), table.value[edge], before))
                self.log[edge].append([fleet.dense[edge].clone(), *rows])

        def mix(world: World, edges: list[int]) -> Any:
            peers[:] = [world.neighbours(e) for e in edges if any(world.present(e))]
            return real_mix(world, edges)

        def aggregate(fleet: ModelState, fetched: Any, *args: Any) -> Any:
            for row, there, theirs in zip(fetched.index.tolist(), fetched.present.tolist(), peers, strict=True):
                for slot, answered, peer in zip(row, there, theirs, strict=False):
                    if answered:
                        self.check(fetched, slot, peer)
            return real_aggregate(fleet, fetched, *args)

        with (
            mock.patch.object(Publications, "__init__", start),
            mock.patch.object(Publications, "publish", publish),
            mock.patch.object(meeting, "_mix", mix),
            mock.patch.object(meeting, "aggregate", aggregate),
        ):
            yield self

    def check(self, fetched: Any, slot: int, peer: int) -> None:
        published = self.log[peer]
        number = max(0, len(published) - 1 - self.staleness)
        self.numbers.append(number)
        dense, *tables = published[number]
        assert torch.equal(fetched.dense[slot], dense)
        for pool, has, expected in zip(fetched.tables, fetched.has, tables, strict=True):
            assert torch.equal(has[slot], ~expected.isnan().any(1))
            assert torch.equal(pool[slot][has[slot]], expected[has[slot]])


@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_fetches_read_the_publication_of_the_right_age(staleness: int, clock: str) -> None:
    """Dense part and id tables, in which only rows trained since the last publication have changed."""
    data = shortened(shop_data(edges=4, events=200), 150)
    with Fetching(staleness).watching() as fetching:
        found = simulate(
            methods={"m": NoPS(aggregation=Learned(batches=1, steps=1), aggregate_every=5, home=None)},
            data=data,
            model=shop_model(shop(edges=4)),
            batch_size=SIZE,
            clock=clock,
            executor="one-at-a-time",
            conditions=Conditions(staleness=staleness),
        )
    assert max(fetching.numbers) >= 5 - staleness
    beyond = sum(number == 0 for number in fetching.numbers)
    notes = [m for m in found.summary()["messages"] if "initial model" in m]
    assert notes == (
        [f"{beyond} fetches were staler than their peer was old: they got its initial model"] if beyond else []
    )
    assert bool(beyond) == bool(staleness)


def test_in_lock_step_the_first_aggregations_reach_beyond_the_start() -> None:
    found = simulate(
        methods={"m": UniWeight(aggregate_every=5)},
        data=measured(3, 30),
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
        clock="batch-index",
        conditions=Conditions(staleness=2),
    )
    # Six aggregations; at the first two the newest publication is the first or second: 2 ago is the initial model.
    assert found.summary()["messages"][-1].startswith(f"{2 * 3 * 2} fetches were staler")


def test_without_staleness_nothing_is_said_of_it() -> None:
    found = simulate(
        methods=["uniweight"], data=measured(3, 30), model=linear, batch_size=SIZE, executor="one-at-a-time"
    )
    assert not [m for m in found.summary()["messages"] if "staler" in m]


Change = Callable[[Method], Method]


def alone_and(method: Method, conditions: Conditions, **settings: Any) -> tuple[World, World]:
    shared: dict[str, Any] = {
        "data": measured(4, [30, 25, 41, 33]),
        "model": linear,
        "rate": 0.05,
        "batch_size": SIZE,
        "conditions": conditions,
        "executor": "one-at-a-time",
    } | settings
    found = seen(methods={"m": method, "noagg": NoAgg()}, **shared)
    return found.worlds[0], found.worlds[1]


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
@pytest.mark.parametrize("paper", [False, True])
def test_with_everybody_down_alphaedge_learns_as_if_alone(clock: str, paper: bool) -> None:
    """It trains on the aggregation batch then, even where it would leave it out after a mix."""
    method = AlphaEdge.paper() if paper else AlphaEdge(aggregation=Learned(batches=1), home=None)
    one, alone = alone_and(replace(method, aggregate_every=5), Conditions(drop=1.0), clock=clock)
    assert torch.equal(one.record.predictions, alone.record.predictions)
    assert not any(one.record.mixes)
    assert int(one.record.bytes.sum()) == 0


def test_with_everybody_up_it_does_not() -> None:
    method = AlphaEdge(aggregation=Learned(batches=1), home=None, aggregate_every=5)
    one, alone = alone_and(method, Conditions())
    assert not torch.allclose(one.record.predictions, alone.record.predictions, atol=1e-3)


def test_a_twin_alone_predicts_as_if_alone() -> None:
    """A judge that never believes the mixed model: its predictions are those of learning alone."""
    never = Home(temperature=1e-9, memory=0.0, blend=True)
    method = AlphaEdge(aggregation=Learned(batches=1), home=never, aggregate_every=5)
    with mock.patch.object(Home, "share", lambda self, lead: torch.zeros_like(lead)):
        one, alone = alone_and(method, Conditions(delay=1))
    assert torch.allclose(one.record.predictions, alone.record.predictions, atol=1e-6)


def always_down(*edges: int) -> Any:
    """Some edges are down all the time."""
    real = Conditions.draw_outages

    def draw(self: Conditions, edge: int, periods: int, seed: int) -> Any:
        return real(self, edge, periods, seed) | (edge in edges)

    return mock.patch.object(Conditions, "draw_outages", draw)


@pytest.mark.parametrize("fetch", [True, False])
def test_an_edge_that_is_down_learns_on_is_not_fetched_from_and_fetches_if_it_may(fetch: bool) -> None:
    with always_down(1):
        found = seen(
            methods={"m": UniWeight(aggregate_every=5)},
            data=measured(3, 20),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
            clock="batch-index",
            conditions=Conditions(down_edges_fetch=fetch),
        )
    pairs = set(found.results.fetches.select("edge", "peer").rows())
    assert pairs == {(0, 2), (2, 0)} | ({(1, 0), (1, 2)} if fetch else set())
    assert found.world.records.tolist() == [19 * SIZE] * 3
    shares = {(e, p): s for e, p, s in found.results.weights.select("edge", "peer", "share").rows()}
    assert shares[0, 1] == 0.0
    assert shares[0, 0] == pytest.approx(0.5)


def test_a_peer_that_is_down_stays_a_neighbour_and_keeps_its_weight() -> None:
    with always_down(1):
        found = seen(
            methods={"m": NoPS(aggregation=Learned(batches=1, rate=0.05), aggregate_every=5, home=None)},
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


def test_half_of_the_fetches_fail_when_edges_are_down_half_of_the_time() -> None:
    up, down = (
        simulate(
            methods={"m": UniWeight(aggregate_every=2)},
            data=measured(6, 40),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
            clock="batch-index",
            conditions=Conditions(drop=d),
        ).fetches["count"].sum()
        for d in (0.0, 0.5)
    )  # fmt: skip
    assert up == 20 * 6 * 5
    assert down / up == pytest.approx(0.5, abs=0.1)


def times_of(found: Seen, edge: int) -> list[float]:
    return found.results.scores.filter(pl.col("edge") == edge)["time"].to_list()


@pytest.mark.parametrize("clock", ["event-time", "batch-index"])
def test_who_joins_late_has_no_batches_before_and_who_leaves_none_after(clock: str) -> None:
    found = seen(
        methods=["alphaedge"],
        data=measured(4, 40),
        model=linear,
        batch_size=SIZE,
        clock=clock,
        executor="one-at-a-time",
        conditions=Conditions(joins={1: 0.5, 3: 0.25}, leaves={2: 0.5, 3: 0.75}),
    )
    bounds = {0: (0.0, 1.01), 1: (0.5, 1.01), 2: (0.0, 0.5), 3: (0.25, 0.75)}
    assert len(times_of(found, 0)) == 40
    for edge, (low, high) in bounds.items():
        times = times_of(found, edge)
        assert low <= min(times)
        assert max(times) < high
        assert len(times) == pytest.approx(40 * (min(high, 1) - low), abs=1)
    # Nobody fetches from those who are not there.
    mixes = found.results.weights
    for edge, (low, high) in bounds.items():
        shares = mixes.filter((pl.col("peer") == edge) & (pl.col("edge") != edge) & (pl.col("share") > 0))
        assert shares["time"].is_between(low, high).all()


def test_an_edge_that_is_there_for_no_batch_does_no_harm() -> None:
    found = simulate(
        methods=["alphaedge", "noagg"],
        data=measured(3, [20, 20, 10], times=lambda e, n: torch.linspace(0, [1.0, 1.0, 0.5][e], n).double()),
        model=linear,
        batch_size=SIZE,
        executor="one-at-a-time",
        conditions=Conditions(joins={2: 0.9}),
    )
    assert found.summary()["methods"]["noagg"]["per_edge"][2] is None
    assert found.summary()["methods"]["noagg"]["mean"] is not None


@pytest.mark.parametrize("delay", [0, 3])
def test_a_twin_that_is_fully_trusted_predicts_as_noagg_does(delay: int) -> None:
    guarded = NoPS(aggregate_every=6, home=Home(trust=-1e9))
    found = seen(
        methods={"guarded": guarded, "alone": NoAgg()},
        data=measured(3, 40),
        model=linear,
        rate=0.05,
        batch_size=SIZE,
        conditions=Conditions(delay=delay),
    )
    one, two = (world.record.predictions for world in found.worlds)
    assert torch.allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("method", [UniWeight(aggregate_every=5), NoPS(aggregate_every=5, home=Home())])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_who_joins_late_starts_from_a_peers_newest_model_or_from_scratch(bootstrap: bool, method: Method) -> None:
    """Its twin too. At moment 0.5, in lock-step, the peers have published at batches 4, 9, 14 and 19 of 41."""
    data = measured(3, 41)
    given: list[tuple[int, int]] = []
    real = Publications.give

    def give(self: Publications, source: int, fleet: ModelState, edge: int) -> None:
        given.append((int(self.number[source]), edge))
        real(self, source, fleet, edge)

    with mock.patch.object(Publications, "give", give):
        found = seen(
            methods={"m": method},
            data=data,
            model=linear,
            rate=0.05,
            batch_size=SIZE,
            clock="batch-index",
            executor="one-at-a-time",
            conditions=Conditions(joins={2: 0.5}, bootstrap=bootstrap),
        )
    with torch.no_grad():
        x = data.streams[2].inputs["x"][20 * SIZE : 21 * SIZE]
        initial = make_model(data, linear, 0).module(x).flatten()
    first = predictions(found.world, 2)[20]
    assert torch.allclose(first, initial, atol=1e-6) != bootstrap
    assert given == ([(4, 2)] * (2 if method.home else 1) if bootstrap else [])


def test_who_joins_late_takes_over_a_peers_running_statistics() -> None:
    means: list[Tensor] = []
    real = Publications.give

    def give(self: Publications, source: int, fleet: ModelState, edge: int) -> None:
        real(self, source, fleet, edge)
        means.append(fleet.buffers["layers.1.running_mean"][edge].clone())

    with mock.patch.object(Publications, "give", give):
        seen(
            methods={"m": UniWeight(aggregate_every=5)},
            data=measured(3, 41),
            model=normalised,
            batch_size=SIZE,
            executor="one-at-a-time",
            conditions=Conditions(joins={2: 0.5}),
        )
    assert len(means) == 1
    assert bool((means[0] != 0).all())


def test_who_is_there_from_the_start_does_not_bootstrap() -> None:
    with mock.patch.object(Publications, "give", side_effect=AssertionError):
        simulate(
            methods=["uniweight"],
            data=measured(3, 20),
            model=linear,
            batch_size=SIZE,
            executor="one-at-a-time",
            conditions=Conditions(joins={1: 0.0}),
        )


EVERYTHING = Conditions(
    delay=2,
    staleness=1,
    drop=0.25,
    drop_stretch=2.0,
    down_edges_fetch=False,
    adversaries=0.25,
    label_noise=0.2,
    noisy_edges=(0, 1),
    joins={1: 0.2},
    leaves={2: 0.8},
)


@pytest.mark.parametrize(
    ("clock", "rows"), [("event-time", "dense"), pytest.param("batch-index", "lazy", marks=pytest.mark.long)]
)
def test_everything_composes(clock: str, rows: str) -> None:
    store = shop(edges=5, events=52)
    found = simulate(
        methods=["alphaedge", "fedweight", "uniweight", "randps", "nops", "noagg", "alphaedge-paper"],
        store=store,
        model=shop_model(store),
        batch_size=SIZE,
        clock=clock,
        id_rows=rows,
        initial="different",
        local_steps=2,
        conditions=EVERYTHING,
        executor="one-at-a-time",
        method=MethodSettings(aggregate_every=6, gather=2, weight_steps=2, peers=2),
    )
    methods = found.summary()["methods"]
    assert len(methods) == 7
    assert all(0 < row["mean"] < 1 for row in methods.values())
    assert all(row["bytes"]["full"] > 0 for name, row in methods.items() if name != "noagg")
    assert found.summary()["adversaries"] == {"0": EVERYTHING.draw_adversaries(5, 0)}
