"""A live edge learns exactly as an edge of the simulator does."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from alphaedge import Dataset, Greedy, Learned, Method, Model, Random
from alphaedge.core.methods import alphaedge, alphaedge_paper, fedweight, noagg, nops, randps, uniweight
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.online import Online
from alphaedge.core.rules.adagrad import Adagrad
from alphaedge.core.rules.adam import Adam
from alphaedge.edge.learning.checkpoints import Checkpoints, Progress
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.learner import Examples, Learner
from alphaedge.errors import CheckpointError
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp

from ...simulation.fleets import exact, measured, predictions, seen, shop_data

SIZE, EVERY = 5, 8


def in_order(data: Dataset) -> list[tuple[int, int]]:
    """(edge, number) of all batches, in the order of their last events."""
    moments = [
        (float(stream.times[(number + 1) * SIZE - 1]), edge, number)
        for edge, stream in enumerate(data.streams)
        for number in range(len(stream) // SIZE)
    ]
    return [(edge, number) for _, edge, number in sorted(moments)]


class Fleet:
    """Edges that live on their own: each learns from its stream and fetches what it is answered."""

    def __init__(self, data: Dataset, make: Any, method: Method, online: Online, capacity: int | None = None) -> None:
        self.data, self.make, self.method, self.online, self.capacity = data, make, method, online, capacity
        torch.manual_seed(0)
        self.start = make().module.state_dict()
        self.names = [str(edge) for edge in range(len(data.streams))]
        self.edges = {name: self.learner(name) for name in self.names}
        for edge in self.edges.values():
            edge.join(self.names)

    def learner(self, name: str) -> Learner:
        """An edge at its very start."""
        model: Model = self.make()
        model.module.load_state_dict(self.start)
        rows = [self.capacity or table.rows for table in model.tables]
        return Learner(OneAtATime(model), self.method, self.online, name=name, seed=0, capacities=rows)

    def examples(self, edge: int, number: int) -> Examples:
        stream, part = self.data.streams[edge], slice(number * SIZE, (number + 1) * SIZE)
        return Examples([stream.inputs[f][part] for f in self.edges["0"].model.fields], stream.labels[part])

    def aggregate(self, me: Learner) -> None:
        me.publish()
        answered = [j for j in me.links.neighbours if self.edges[j].publication.number > 0]
        for peer in answered:
            pull = self.edges[peer].publication.answer(me.request(peer), self.edges[peer].tables)
            me.held.setdefault(peer, HeldModel(me.fleet.dense[0], me.tables)).take(pull, me.tables)
        me.aggregate(answered)
        me.choose(self.names, {j: self.edges[j].topology for j in me.links.neighbours})

    def live(self, before: Callable[[int, int], None] = lambda _, __: None) -> list[torch.Tensor]:
        """Predictions [batches, size] of each edge; ``before`` is called with the edge and number of each batch."""
        found: list[list[torch.Tensor]] = [[] for _ in self.names]
        for edge, number in in_order(self.data):
            before(edge, number)
            me, examples = self.edges[str(edge)], self.examples(edge, number)
            found[edge].append(me.model.loss.link(me.predict(examples.inputs)))
            me.learn(examples)
            if me.due:
                self.aggregate(me)
        return [torch.stack(each) for each in found]


def whole_periods(data: Dataset) -> Dataset:
    """Streams of whole periods: at a stream's end the simulator, which sees it coming, keeps nothing for later."""
    step = SIZE * EVERY
    cut = [len(s) // step * step for s in data.streams]
    parts = tuple(
        replace(s, inputs={k: v[:n] for k, v in s.inputs.items()}, labels=s.labels[:n], times=s.times[:n])
        for s, n in zip(data.streams, cut, strict=True)
    )
    return replace(data, streams=parts)


SHOP = whole_periods(shop_data(edges=5, events=700))
GREEDY = Greedy(peers=2)
METHODS: dict[str, Method] = {
    "alphaedge": alphaedge(selection=GREEDY),
    "alphaedge, no home": alphaedge(selection=GREEDY, home=None),
    "alphaedge-paper": replace(alphaedge_paper(), selection=replace(alphaedge_paper().selection, peers=2)),
    "randps": randps(selection=Random(peers=2)),
    "nops": nops(aggregation=Learned(weight_batches=2)),
    "fedweight": fedweight(),
    "uniweight": uniweight(),
    "noagg": noagg(),
}


@pytest.mark.parametrize("name", list(METHODS))
def test_lives_and_simulations_of_a_shop_are_the_same(name: str) -> None:
    """Ids get rows as they appear here, and are row numbers there. Adoption at first sight is the simulator's alone."""
    method = replace(METHODS[name], aggregate_every=EVERY, adopt_rows=False)
    make = partial(exact, partial(deepfm, SHOP.fields))
    online = Online(Adam(0.01), rows=Adagrad(0.1))
    world = seen(data=SHOP, model=make, methods={name: method}, rate=0.01, id_rows="adagrad", batch_size=SIZE).world
    for edge, found in enumerate(Fleet(SHOP, make, method, online).live()):
        expected = predictions(world, edge)
        assert len(expected) == len(found) >= 2 * EVERY
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=1e-6)


def test_running_statistics_are_learned_alike() -> None:
    data = whole_periods(measured(4, 80))
    # One moment each: edges of one moment all publish before anybody reads, which only a simulator can arrange.
    apart = tuple(replace(s, times=s.times.double() + 1e-3 * e) for e, s in enumerate(data.streams))
    data = replace(data, streams=apart)
    method = replace(METHODS["alphaedge"], aggregate_every=EVERY)
    make = partial(exact, partial(mlp, data.fields, normalise=True))
    world = seen(data=data, model=make, methods={"alphaedge": method}, rate=0.01, batch_size=SIZE).world
    for edge, found in enumerate(Fleet(data, make, method, Online(Adam(0.01))).live()):
        torch.testing.assert_close(found.float(), predictions(world, edge), rtol=1e-6, atol=1e-6)


def shop_fleet(capacity: int | None = None) -> Fleet:
    method = replace(METHODS["alphaedge"], aggregate_every=EVERY)
    make = partial(exact, partial(deepfm, SHOP.fields))
    return Fleet(SHOP, make, method, Online(Adam(0.01), rows=Adagrad(0.1)), capacity)


def test_after_restarts_at_any_moment_the_state_is_that_of_a_run_without(tmp_path: Path) -> None:
    """The newest checkpoint and what was learned since: the same predictions to the last bit."""
    undisturbed, disturbed, rng = shop_fleet().live(), shop_fleet(), random.Random(1)
    kept = {name: Checkpoints(tmp_path / name) for name in disturbed.names}
    written = dict.fromkeys(disturbed.names, -1)  # aggregations
    restarts = 0

    def restart(edge: int, number: int) -> None:
        nonlocal restarts
        name = str(edge)
        me = disturbed.edges[name]
        if me.aggregations > written[name] and not me.kept:  # what a live edge does at the end of each aggregation
            kept[name].save(me, "schema", Progress(feedback=number))
            written[name] = me.aggregations
        if rng.random() < 0.3:
            again = disturbed.learner(name)
            learned, wrong = kept[name].restore(again, "schema")
            assert not wrong
            for missed in range(learned.feedback, number):
                again.learn(disturbed.examples(edge, missed))
            disturbed.edges[name] = again
            restarts += 1

    found = disturbed.live(restart)
    assert restarts > 20
    for one, two in zip(undisturbed, found, strict=True):
        assert torch.equal(one, two)


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_is_taken(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    states = {}

    def save(edge: int, number: int) -> None:
        me = fleet.edges["0"]
        if edge == 0 and not me.kept and me.revealed % EVERY == 0:
            states[number] = (kept.save(me, "schema", Progress(feedback=number)), me.fleet.dense.clone())

    fleet.live(save)
    numbers = sorted(states)
    assert len(numbers) >= 3
    kept_names = {p.name for p in tmp_path.glob("*.safetensors")}
    assert kept_names == {states[n][0].name for n in numbers[-2:]}, "the last two are kept"
    newest, before = states[numbers[-1]], states[numbers[-2]]
    again = fleet.learner("0")
    assert kept.restore(again, "schema") == (Progress(feedback=numbers[-1]), [])
    assert torch.equal(again.fleet.dense, newest[1])
    for damage in (lambda b: b[: len(b) // 2], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""):
        whole = newest[0].read_bytes()
        newest[0].write_bytes(damage(whole))
        learned, wrong = kept.restore(again, "schema")
        assert learned.feedback == numbers[-2]
        assert "checksum" in wrong[0]
        assert torch.equal(again.fleet.dense, before[1])
        newest[0].write_bytes(whole)


def test_a_checkpoint_of_another_edge_is_refused_by_name(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    kept.save(fleet.edges["0"], "schema", Progress())
    learned, wrong = kept.restore(fleet.learner("1"), "schema")
    assert learned.feedback == 0
    assert "edge 0" in wrong[0]


def test_a_refused_checkpoint_does_not_outrank_those_to_come(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    for number in (9, 10):
        fleet.edges["0"].aggregations = number
        kept.save(fleet.edges["0"], "schema", Progress(feedback=number))
    other = fleet.learner("1")  # the edge got another name, say
    assert kept.restore(other, "schema")[0].feedback == 0
    assert len(list(tmp_path.glob("*.refused"))) == 2, "for somebody to look at"
    other.aggregations = 1
    kept.save(other, "schema", Progress(feedback=7))
    assert kept.restore(fleet.learner("1"), "schema") == (Progress(feedback=7), [])


def test_what_does_not_fit_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    fleet.live()
    me = fleet.edges["0"]
    me.kept = []
    kept.save(me, "schema", Progress(feedback=1))
    path = next(tmp_path.glob("*.safetensors"))
    whole = path.read_bytes()
    small = shop_fleet(capacity=2)
    alone = Fleet(SHOP, small.make, replace(small.method, home=None), small.online)
    for learner in (small.learner("0"), alone.learner("0")):
        path.write_bytes(whole)
        before = learner.mixed.dense.clone()
        progress, wrong = kept.restore(learner, "schema")
        assert (progress.feedback, len(wrong)) == (0, 1)
        assert torch.equal(learner.mixed.dense, before)
        assert learner.tables[0].size == 0


def test_of_another_schema_the_last_checkpoint_stays(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    me = fleet.edges["0"]
    for number in range(3):
        me.aggregations = number
        kept.save(me, "old", Progress(feedback=number))
    assert kept.restore(fleet.learner("0"), "new") == (Progress(), [])
    for number in range(3):
        me.aggregations = number
        kept.save(me, "new", Progress(feedback=10 + number))
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    assert kept.others("new") == {"old"}
    assert kept.restore(fleet.learner("0"), "old")[0].feedback == 2, "a rollback"


def test_no_checkpoint_is_written_while_batches_wait(tmp_path: Path) -> None:
    fleet = shop_fleet()
    me = fleet.edges["0"]
    for number in range(EVERY - 1):
        me.learn(fleet.examples(0, number))
    with pytest.raises(CheckpointError, match="batches wait"):
        Checkpoints(tmp_path).save(me, "schema", Progress())
    assert not list(tmp_path.iterdir())


def test_with_few_rows_the_longest_unused_ids_give_way_and_learning_goes_on() -> None:
    few = shop_fleet(capacity=8)
    found = few.live()
    for name in few.names:
        me = few.edges[name]
        for table in me.tables:
            assert len(table.numbering) <= 8
            assert table.size <= 8
        for held in me.held.values():
            for t, table in enumerate(me.tables):
                assert len(held.has[t]) <= table.size + 1
    assert all(torch.isfinite(each).all() for each in found)
    assert any(len(t.numbering) == 8 for e in few.edges.values() for t in e.tables), "some table was full"


def test_rows_of_ids_that_gave_way_are_not_taken_for_those_of_the_ids_that_came() -> None:
    few = shop_fleet(capacity=8)

    def right(edge: int, number: int) -> None:
        me = few.edges[str(edge)]
        for peer, held in me.held.items():
            for t, table in enumerate(me.tables):
                keys = table.numbering.keys_by_row()
                for row in held.has[t].nonzero().flatten().tolist():
                    assert row < len(keys), "nobody's row is held"
                    assert keys[row] in seen_keys[t][peer], "a row is held of an id that the peer has never trained"

    seen_keys: list[dict[str, set[int]]] = [{name: set() for name in few.names} for _ in few.edges["0"].tables]
    publish = Learner.publish

    def noted(self: Learner) -> None:
        publish(self)
        for t, table in enumerate(self.tables):
            keys = table.numbering.keys_by_row()
            seen_keys[t][self.name] |= {k for k, v in zip(keys, table.version.tolist(), strict=False) if v > 0}

    with mock.patch.object(Learner, "publish", noted):
        few.live(right)
