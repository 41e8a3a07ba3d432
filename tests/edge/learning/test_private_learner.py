"""A live edge with privacy on learns, releases and mixes exactly as one of the simulator does."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from alphaedge.core.methods import alphaedge, private
from alphaedge.core.online import Online
from alphaedge.core.privacy.noise import Noise
from alphaedge.core.privacy.settings import Privacy
from alphaedge.core.rules.optimizer.adagrad import Adagrad
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.core.rules.selection.random import Random
from alphaedge.edge.learning.learner import Learner
from alphaedge.models.deepfm import deepfm

from ...simulation.fleets import exact, predictions, seen, shop_data
from .private import PrivateFleet, SimulatedNoise, released
from .test_learner import EVERY, SIZE, assert_alike, whole_periods

SHOP = whole_periods(shop_data(edges=3, events=400))
SPAN = max(float(s.times[-1]) for s in SHOP.streams) - min(float(s.times[0]) for s in SHOP.streams)
PROMISES: dict[str, dict[str, Any]] = {
    "events": {"epsilon": 50.0},
    "users, once a window": {"epsilon": 80.0, "user": "user", "lot_batches": 2, "window_seconds": SPAN / 7},
    "a budget for two windows": {"epsilon": 50.0, "window_seconds": SPAN / 5, "total_epsilon": 90.0},
    "pulls ahead": {"epsilon": 50.0},
}


@pytest.mark.parametrize("name", list(PROMISES))
def test_lives_and_simulations_of_a_private_shop_are_the_same(name: str) -> None:
    promise = Privacy(tables=("item",), rate=0.05, tally_batches=2, **PROMISES[name])
    plain = alphaedge(selection=Random(peers=2), aggregate_every=EVERY, pull_ahead=3 * (name == "pulls ahead"))
    method = private(replace(plain, adopt_rows=False), promise)
    make = partial(exact, partial(deepfm, SHOP.fields))
    settings = {"rate": 0.01, "id_rows": "adagrad", "batch_size": SIZE}
    world = seen(data=SHOP, model=make, methods={name: method}, **settings).world
    assert world.releases is not None

    def noise(learner: Learner, first: int) -> Noise:
        return SimulatedNoise(learner, world, int(learner.name), first)

    fleet = PrivateFleet(SHOP, make, method, Online(Adam(0.01), row_optimizer=Adagrad(0.1)), noise)
    lived = fleet.live()
    told = 0
    for edge, found in enumerate(lived):
        me = fleet.edges[str(edge)]
        mine, theirs = released(me), world.releases
        torch.testing.assert_close(mine.models.dense[0], theirs.models.dense[edge], rtol=0, atol=1e-6)
        assert mine.records == int(theirs.records()[edge])
        assert me.publication.number == int(world.published.number[edge])
        ledger = theirs.ledgers[edge]
        assert (mine.ledger.window, mine.ledger.windows) == (ledger.window, ledger.windows)
        assert len(mine.ledger.taken) == len(ledger.taken)
        for place, t in enumerate(mine.learning.mechanism.tables):
            named = world.batches.own_rows[t].named[edge].tolist()
            rows = me.tables[t].rows(torch.tensor(named[:-1]))
            for row, there in enumerate(rows.tolist()):
                if there >= 0:
                    pair = mine.released.counts[place][0, there], theirs.released.counts[place][edge, row]
                    torch.testing.assert_close(*pair, rtol=0, atol=1e-5)
            told += int((me.tables[t].version > 0).sum())
        torch.testing.assert_close(found.float(), predictions(world, edge), rtol=0, atol=1e-5)
        assert_alike(me.links, world.links[edge])
        assert me.topology == {}
    assert told > 0 or promise.user, "some rows may be told; ten users are too few for that"
    windows = [released(me).ledger.windows for me in fleet.edges.values()]
    assert (name == "a budget for two windows") == any(released(me).exhausted for me in fleet.edges.values())
    assert max(windows) > 1 or name in ("events", "pulls ahead")
