"""A live edge learns exactly as an edge of the simulator does."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch

from alphaedge import Dataset, Field, Greedy, Home, Learned, Method, MethodSettings, Model, Random, Stream
from alphaedge.core.disclosure import Disclosure
from alphaedge.core.gradients import OneAtATime
from alphaedge.core.links import Links
from alphaedge.core.methods import RIVALS, alphaedge, alphaedge_paper, fedweight, noagg, nops, randps, uniweight
from alphaedge.core.online import Online
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.edge.inputs.lookup import NO_KEY, compact_keys
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.held_model import HeldModel
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.publication import PulledModel
from alphaedge.models.deepfm import deepfm
from alphaedge.models.mlp import mlp
from alphaedge.models.table_model import table_model

from ...own_rules import Familiar, NextInLine, familiar, median
from ...simulation.fleets import exact, measured, predictions, seen, shop_data

SIZE, EVERY = 5, 8
Pulled = tuple[dict[str, PulledModel], dict[str, PulledModel]]
"""By peer, the models of neighbours and the tallies of others."""


def in_order(data: Dataset) -> list[tuple[int, int]]:
    """(edge, number) of all batches, in the order of their last events."""
    moments = [
        (float(stream.times[(number + 1) * SIZE - 1]), edge, number)
        for edge, stream in enumerate(data.streams)
        for number in range(len(stream) // SIZE)
    ]
    return [(edge, number) for _, edge, number in sorted(moments)]


class Fleet:
    """Edges that live on their own: each learns from its stream and pulls what it is answered."""

    def __init__(self, data: Dataset, make: Any, method: Method, online: Online, capacity: int | None = None) -> None:
        self.data, self.make, self.method, self.online, self.capacity = data, make, method, online, capacity
        torch.manual_seed(0)
        self.start = make().module.state_dict()
        self.names = [str(edge) for edge in range(len(data.streams))]
        self.edges = {name: self.learner(name) for name in self.names}
        self.pulled: dict[tuple[str, int], Pulled] = {}  # by edge and aggregation
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

    def round(self, me: Learner) -> None:
        me.start_round()
        models, tallies = self.pulled[me.name, me.aggregations] if self.method.pull_ahead else self.pull(me)
        for peer, pull in models.items():
            me.held.setdefault(peer, HeldModel(me.mixed.dense[0], me.tables)).take(pull, me.tables)
        for peer, pull in tallies.items():
            me.heard.take(peer, pull)
        me.mix(list(models), list(tallies))
        me.finish_round(self.names, {j: self.edges[j].topology for j in me.links.neighbours})

    def pull(self, me: Learner) -> Pulled:
        """What the neighbours that have published something answer, and the others that the edge hears."""
        ready = {j: edge for j, edge in self.edges.items() if edge.publication.number > 0}
        near, others = ([j for j in some if j in ready] for some in (me.links.neighbours, me.links.others))
        models = {j: ready[j].publication.answer(me.request(j), ready[j].tables) for j in near}
        asked = {j: ready[j].publication.answer(me.request_tallies(j), ready[j].tables) for j in others}
        widths = [layout.width for layout in me.model.tables]
        return models, {j: pull.tallies_alone(widths) for j, pull in asked.items()}

    def live(self, before: Callable[[int, int], None] = lambda _, __: None) -> list[torch.Tensor]:
        """Predictions [batches, size] of each edge; ``before`` is called with the edge and number of each batch."""
        found: list[list[torch.Tensor]] = [[] for _ in self.names]
        for edge, number in in_order(self.data):
            before(edge, number)
            me, examples = self.edges[str(edge)], self.examples(edge, number)
            found[edge].append(me.model.loss.link(me.predict(examples.inputs)))
            me.learn(examples)
            if me.past_pull and (me.name, me.aggregations) not in self.pulled:
                self.pulled[me.name, me.aggregations] = self.pull(me)
            if me.due:
                self.round(me)
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


SHOP = whole_periods(shop_data(edges=5, events=200))
GREEDY = Greedy(peers=2)
METHODS: dict[str, Method] = {
    "alphaedge": alphaedge(selection=GREEDY),
    "alphaedge, neighbours alone are heard": alphaedge(selection=GREEDY, hear=0),
    "alphaedge, one other is heard": alphaedge(selection=GREEDY, hear=1),
    "alphaedge, no home": alphaedge(selection=GREEDY, home=None),
    "alphaedge-paper": replace(alphaedge_paper(), selection=replace(alphaedge_paper().selection, peers=2)),
    "randps": randps(selection=Random(peers=2)),
    "nops": nops(aggregation=Learned(weight_batches=2)),
    "fedweight": fedweight(),
    "uniweight": uniweight(),
    "noagg": noagg(),
    "alphaedge, pulls ahead": alphaedge(selection=GREEDY, pull_ahead=3),
    "fedweight, pulls ahead": fedweight(pull_ahead=4),
    "mixed models are published": alphaedge(selection=GREEDY, publish="mixed"),
    "in int8": alphaedge(selection=GREEDY, precision="int8"),
    "in int8, rows that have moved": alphaedge(selection=GREEDY, precision="int8", min_change=0.2),
    "a budget for rows": alphaedge(selection=GREEDY, publish_bytes=60),
    "ids of three users": alphaedge(selection=GREEDY, disclosure=Disclosure(min_users=3, user="user")),
    "ids of three users, pulls ahead": alphaedge(
        selection=GREEDY, disclosure=Disclosure(min_users=3, user="user", local=("user",)), pull_ahead=3
    ),
    "a rule of one's own": familiar(aggregation=Familiar(weight_batches=3), selection=NextInLine(), publish="mixed"),
    "a rule of one's own, random peers": familiar(selection=Random(peers=2), home=Home()),
    "a median": median(),
    **{name: MethodSettings(peers=3).apply(name) for name in RIVALS},
}


def sales() -> Dataset:
    """Sales around 500 in three shops, with the item, the price, and what was sold before, which may be missing."""
    g, streams = torch.Generator().manual_seed(0), []
    for edge in range(3):
        item, price = torch.randint(4, (160,), generator=g), torch.randn(160, 1, generator=g)
        sold = 500 + 50 * edge + 20 * item + 10 * price[:, 0] + torch.randn(160, generator=g)
        before = (sold + 5 * torch.randn(160, generator=g)).unsqueeze(1)
        before[::9] = torch.nan
        times = torch.arange(160).double() + edge / 10
        streams.append(Stream({"item": item, "price": price, "before": before}, sold, times))
    fields = (Field("item", "category", 4), Field("price", "number"), Field("before", "number", missing=True))
    return whole_periods(Dataset("sales", "regress", fields, tuple(streams)))


@pytest.mark.parametrize("said", [{}, {"last": "before"}, {"last": "before", "relative": True}], ids=str)
def test_lives_and_simulations_of_a_table_are_the_same(said: dict[str, Any]) -> None:
    """What is known of labels, the ridge and the tallies are the same code, on both sides."""
    data, method = sales(), alphaedge(selection=Greedy(peers=2), aggregate_every=EVERY, adopt_rows=False)
    make = partial(exact, partial(table_model, data.fields, **said))
    online = Online(Adam(0.01), row_optimizer=Adagrad(0.1))
    methods = {"alphaedge": method}
    world = seen(data=data, model=make, methods=methods, rate=0.01, id_rows="adagrad", batch_size=SIZE).world
    for edge, found in enumerate(Fleet(data, make, method, online).live()):
        expected = predictions(world, edge)
        assert len(expected) == len(found) >= 2 * EVERY
        torch.testing.assert_close(found.float(), expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("name", list(METHODS))
def test_lives_and_simulations_of_a_shop_are_the_same(name: str) -> None:
    """Ids get rows as they appear here, and are row numbers there. Adoption at first sight is the simulator's alone."""
    method = replace(METHODS[name], aggregate_every=EVERY, adopt_rows=False)
    make = partial(exact, partial(deepfm, SHOP.fields))
    online = Online(Adam(0.01), row_optimizer=Adagrad(0.1))
    world = seen(data=SHOP, model=make, methods={name: method}, rate=0.01, id_rows="adagrad", batch_size=SIZE).world
    fleet = Fleet(SHOP, make, method, online)
    for edge, found in enumerate(fleet.live()):
        expected = predictions(world, edge)
        assert len(expected) == len(found) >= 2 * EVERY
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=1e-6)
        assert_alike(fleet.edges[str(edge)].links, world.links[edge])


def assert_alike(live: Links[str], simulated: Links[int]) -> None:
    """Both remember the same of their peers: weights, the rule's numbers, and what was pulled."""
    assert live.neighbours == [str(j) for j in simulated.neighbours]
    assert list(live.known) == [str(j) for j in simulated.known]
    pairs = zip((live.own, *live.known.values()), (simulated.own, *simulated.known.values()), strict=True)
    for one, two in pairs:
        assert one.weight == pytest.approx(two.weight, abs=1e-6)
        assert one.numbers == pytest.approx(two.numbers, abs=1e-6)
        assert (one.publication, one.pulled_at) == (two.publication, two.pulled_at)
    assert live.others == [str(j) for j in simulated.others]
    assert set(live.ears) == {str(j) for j in simulated.ears}
    for j, ear in simulated.ears.items():
        mine = live.ears[str(j)]
        assert (mine.publication, mine.pulled_at) == (ear.publication, ear.pulled_at)
        assert (mine.agreed, mine.told) == pytest.approx((ear.agreed, ear.told), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "statistics", "publish"),
    [
        ("alphaedge", "local", "trained"),
        ("alphaedge", "mixed", "mixed"),
        ("a median", "mixed", "trained"),
        ("a rule of one's own", "mixed", "mixed"),
    ],
)
def test_running_statistics_are_learned_alike(name: str, statistics: str, publish: str) -> None:
    # With this seed no two neighbours ever have the same model: rounding would decide between equal shares.
    data = whole_periods(measured(4, 40, seed=1))
    # One moment each: edges of one moment all publish before anybody reads, which only a simulator can arrange.
    apart = tuple(replace(s, times=s.times.double() + 1e-3 * e) for e, s in enumerate(data.streams))
    data = replace(data, streams=apart)
    method = replace(METHODS[name], aggregate_every=EVERY, statistics=statistics, publish=publish)
    make = partial(exact, partial(mlp, data.fields, normalise=True))
    world = seen(data=data, model=make, methods={name: method}, rate=0.01, batch_size=SIZE).world
    fleet = Fleet(data, make, method, Online(Adam(0.01)))
    for edge, found in enumerate(fleet.live()):
        torch.testing.assert_close(found.float(), predictions(world, edge), rtol=1e-6, atol=1e-6)
        assert_alike(fleet.edges[str(edge)].links, world.links[edge])


def shop_fleet(capacity: int | None = None, **changes: Any) -> Fleet:
    method = replace(METHODS["alphaedge"], aggregate_every=EVERY, **changes)
    make = partial(exact, partial(deepfm, SHOP.fields))
    return Fleet(SHOP, make, method, Online(Adam(0.01), row_optimizer=Adagrad(0.1)), capacity)


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


def test_ids_beyond_the_rows_of_their_table_are_learned_from_as_unknown_ones() -> None:
    """A batch has five events, so up to five users and items."""
    few = shop_fleet(capacity=2)
    found = few.live()
    assert all(torch.isfinite(each).all() for each in found)
    me, examples = few.edges["0"], few.examples(0, 0)
    (_, keys), records = compact_keys(me.model, examples.inputs), me.records
    assert any(len(set(some.flatten().tolist()) - {NO_KEY}) > 2 for some in keys)
    assert me.learn(examples)
    assert me.records == records + SIZE, "every event counts"
    for t, table in enumerate(me.tables):
        assert len(table.numbering) == 2
        for state in me.states.values():
            assert not state.tables[t].storage[:, :, -1].any(), "nothing is kept of those that had no row"


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
    publish = Learner._publish

    def noted(self: Learner) -> None:
        publish(self)
        for t, table in enumerate(self.tables):
            keys = table.numbering.keys_by_row()
            seen_keys[t][self.name] |= {k for k, v in zip(keys, table.version.tolist(), strict=False) if v > 0}

    with mock.patch.object(Learner, "_publish", noted):
        few.live(right)
