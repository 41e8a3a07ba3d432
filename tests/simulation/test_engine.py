"""Who does what when: batches in order, mixes in time order, weight batches learned after the mix."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest import mock

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alphaedge import Conditions, Dataset, Everybody, Greedy, Home, Learned, Method, MethodSettings, simulate
from alphaedge.core.methods import alphaedge, fedweight, noagg, nops, randps, uniweight
from alphaedge.core.state import ModelState
from alphaedge.simulation import engine
from alphaedge.simulation.engine import Engine
from alphaedge.simulation.training_span import TrainingSpan
from alphaedge.simulation.world import World

from .fleets import Seen, linear, measured, predictions, seen, shop, shop_model

SIZE = 5


@dataclass
class History:
    """What one edge did, in order."""

    predicted: list[int] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    home_learned: list[int] = field(default_factory=list)
    # For each mix: the batch at which it was, and the batches learned before it.
    mixes: list[tuple[int, set[int]]] = field(default_factory=list)
    # For each batch learned, the newest batch predicted before.
    learned_at: dict[int, int] = field(default_factory=dict)


def histories(*, pretend: bool = False, **settings: Any) -> tuple[Seen, list[History]]:
    """Run and note what each edge does; with ``pretend`` nothing is computed but the plan."""
    log: dict[int, History] = {}
    real_run, real_round = engine.run_span, engine.aggregate_group

    def run(state: ModelState, span: TrainingSpan, *args: Any, **kwargs: Any) -> Tensor:
        columns = (span.models, span.edges, span.predicted, span.trained)
        for model, edge, predicted, learned in zip(*(column.tolist() for column in columns), strict=True):
            history = log.setdefault(edge, History())
            for p, t in zip(predicted, learned, strict=True):
                if model != edge:  # its home model
                    history.home_learned += [t] if t >= 0 else []
                    continue
                if p >= 0:
                    history.predicted.append(p)
                if t >= 0:
                    history.learned.append(t)
                    history.learned_at[t] = history.predicted[-1]
        return torch.zeros(*span.predicted.shape, SIZE) if pretend else real_run(state, span, *args, **kwargs)

    def aggregate_group(world: World, edges: list[int], block: int, lost: Sequence[int]) -> None:
        before = [len(world.log.mixes[e]) for e in edges]
        real_round(world, edges, block, lost)
        for edge, count in zip(edges, before, strict=True):
            if len(world.log.mixes[edge]) > count:
                history = log[edge]
                history.mixes.append((history.predicted[-1], set(history.learned)))

    with mock.patch.object(engine, "run_span", run), mock.patch.object(engine, "aggregate_group", aggregate_group):
        found = seen(batch_size=SIZE, model=linear, executor="one-at-a-time", **settings)
    return found, [log[e] for e in sorted(log)]


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 3))
    every = draw(st.integers(count, 7))
    home = Home() if draw(st.booleans()) else None
    edges = 3
    joins = {1: draw(st.sampled_from([0.1, 0.35, 0.8]))} if draw(st.booleans()) else {}
    leaves = {2: draw(st.sampled_from([0.3, 0.9]))} if draw(st.booleans()) else {}
    return {
        "data": measured(edges, draw(st.lists(st.integers(1, 25), min_size=edges, max_size=edges)), SIZE),
        "methods": {
            "m": nops(
                aggregation=Learned(weight_batches=count, steps=1),
                aggregate_every=every,
                train_on_aggregation=draw(st.booleans()),
                train_ahead=False,
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
    count, timeline = method.weight_batches, world.timelines[0]
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
            about = set(range(at - delay - count + 1, at - delay + 1))
            # ... which the edge has not been trained on before, unlike all that came earlier.
            assert not about & before
            assert before | left_out == set(range(first, at - delay - count + 1))
            if not method.train_on_aggregation:
                left_out |= about
        assert not left_out & set(did.learned)
        # All else is learned, but for what is revealed too late.
        reached = max([first - 1, *did.learned, *left_out])
        assert set(did.learned) | left_out == set(range(first, reached + 1))
        assert reached >= last - 1 - delay - count
        if method.home:
            assert did.home_learned == list(range(first, max([first - 1, *did.home_learned]) + 1))
            assert set(did.home_learned) >= set(did.learned)
        assert int(world.records[edge]) == SIZE * len(did.learned)


def test_weight_batches_are_predicted_and_scored_but_learned_after_the_mix() -> None:
    method = alphaedge(aggregation=Learned(weight_batches=3), aggregate_every=8, home=None, train_ahead=False)
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
def test_train_on_aggregation_decides_whether_weight_batches_are_learned_at_all(trained: bool, left: int) -> None:
    """The last aggregation is at the very end, so its weight batches are never learned."""
    rule = Learned(weight_batches=3)
    method = alphaedge(aggregation=rule, aggregate_every=8, home=None, train_on_aggregation=trained, train_ahead=False)
    found, log = histories(data=measured(3, 24), methods={"m": method}, clock="batch-index")
    assert found.world.records.tolist() == [left * SIZE] * 3
    assert [len(did.learned) for did in log] == [left] * 3
    assert int(found.world.models.steps[0]) == left


@contextmanager
def one_moment_after_the_other() -> Iterator[None]:
    """Nothing side by side: each pass is the events of the earliest moment, and no others."""

    def due(self: Engine) -> list[list[int]]:
        world = self.world
        waiting = [e for e in range(len(world.models)) if world.phase[e] in ("to join", "to aggregate")]
        soonest = min((world.moment[e] for e in waiting), default=0.0)
        return [[e for e in waiting if world.moment[e] == soonest]] if waiting else []

    with mock.patch.object(Engine, "_due", due):
        yield


def uneven(edge: int, events: int) -> Tensor:
    """Busy and quiet times, different for each edge, with many ties between edges."""
    steps = torch.rand(events, generator=torch.Generator().manual_seed(edge)) ** 3
    days = torch.cumsum(steps, 0)
    return (days / days[-1] * 40).round().double()


ONE_STEP = Learned(weight_batches=1, steps=1)


SIDE_BY_SIDE: list[tuple[str, Method, Conditions]] = [
    ("greedy", alphaedge(selection=Greedy(peers=2), aggregate_every=4, aggregation=ONE_STEP), Conditions()),
    ("random", randps(aggregate_every=3, aggregation=ONE_STEP, home=None), Conditions(drop=0.3, staleness=1)),
    ("records", fedweight(aggregate_every=3), Conditions(delay=2, leaves={1: 0.6})),
    ("everybody", uniweight(selection=Everybody(), aggregate_every=3), Conditions(joins={0: 0.0, 2: 0.4, 3: 0.55})),
    ("mixed", uniweight(publish="mixed", aggregate_every=3), Conditions(drop=0.2)),
    ("mixed and late", uniweight(publish="mixed", aggregate_every=3), Conditions(joins={2: 0.4, 3: 0.55})),
    ("alone", noagg(aggregate_every=3), Conditions(joins={2: 0.4})),
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
    assert torch.allclose(together.world.log.predictions, in_turn.world.log.predictions, atol=1e-5, equal_nan=True)
    assert [links.neighbours for links in together.world.links] == [links.neighbours for links in in_turn.world.links]
    for frame in ("pulls", "weights"):
        one, two = (getattr(r.results, frame) for r in (together, in_turn))
        values = [c for c in one.columns if c != "share"]
        assert one.select(values).equals(two.select(values))


EVERYTHING = Conditions(
    delay=2,
    staleness=1,
    drop=0.25,
    drop_stretch=2.0,
    down_edges_pull=False,
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
        method=MethodSettings(aggregate_every=6, weight_batches=2, weight_steps=2, peers=2),
    )
    methods = found.summary()["methods"]
    assert len(methods) == 7
    assert all(0 < row["mean"] < 1 for row in methods.values())
    assert all(row["bytes"]["full"] > 0 for name, row in methods.items() if name != "noagg")
    assert found.summary()["adversaries"] == {"0": EVERYTHING.draw_adversaries(5, 0)}
