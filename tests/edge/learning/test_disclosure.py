"""What a live edge names to its peers, in requests and in answers, with a minimum of users behind each id."""

from functools import partial
from typing import Any

import pytest

from alphaedge.core.disclosure import Disclosure
from alphaedge.core.methods import alphaedge
from alphaedge.core.online import Online
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.edge.learning.learner import Learner
from alphaedge.models.deepfm import deepfm

from ...simulation.fleets import exact
from .test_learner import EVERY, GREEDY, SHOP, SIZE, Fleet, Pulled

LEAST = 3


class Watched(Fleet):
    """Looks at every request and every answer before it goes on."""

    def __init__(self, disclosure: Disclosure, **changes: Any) -> None:
        method = alphaedge(selection=GREEDY, aggregate_every=EVERY, disclosure=disclosure, **changes)
        super().__init__(SHOP, partial(exact, partial(deepfm, SHOP.fields)), method, Online(Adam(0.01)))
        self.learned = dict.fromkeys(self.names, 0)  # batches
        self.asked = self.told = 0

    def pull(self, me: Learner) -> Pulled:
        requests = [me.request(peer) for peer in me.links.neighbours]
        requests += [me.request_tallies(peer) for peer in me.links.others]
        for request in requests:
            for t, keys in enumerate(request.keys):
                self.asked += len(keys)
                self.check(me.name, t, keys.tolist())
        models, tallies = super().pull(me)
        for peer, pull in (*models.items(), *tallies.items()):
            for t, keys in enumerate(pull.keys):
                self.told += len(keys)
                self.check(peer, t, keys.tolist())
        return models, tallies

    def check(self, name: str, table: int, keys: list[int]) -> None:
        """Every key has enough users behind it in what the edge has learned."""
        model, stream = self.edges[name].model, SHOP.streams[int(name)]
        events = self.learned[name] * SIZE
        for key in keys:
            users: set[int] = set()
            for place in model.tables[table].fields:
                named = stream.inputs[model.fields[place]][:events].reshape(events, -1)
                users |= set(stream.inputs["user"][:events][(named == key).any(1)].tolist())
            assert len(users) >= LEAST, (name, table, key)

    def run(self) -> None:
        def before(edge: int, number: int) -> None:
            self.learned[str(edge)] = number + 1  # a round follows the batch at once

        self.live(before)


@pytest.mark.parametrize("changes", [{}, {"pull_ahead": 3}, {"train_ahead": False}], ids=str)
def test_no_message_names_an_id_that_too_few_users_stand_behind(changes: dict[str, Any]) -> None:
    fleet = Watched(Disclosure(min_users=LEAST, user="user"), **changes)
    fleet.run()
    assert fleet.asked > 100
    assert fleet.told > 20


def test_no_message_names_an_id_of_a_local_table() -> None:
    fleet = Watched(Disclosure(min_users=LEAST, user="user", local=("user", "item")))
    fleet.run()
    for name, me in fleet.edges.items():
        assert not (me.tables[0].named_since >= 0).any(), name
        assert not me.tables[0].version.any(), name


def test_new_ids_are_not_asked_for_while_users_are_counted() -> None:
    assert alphaedge().asks_for_new_ids
    assert alphaedge(disclosure=Disclosure(local=("user",))).asks_for_new_ids
    assert not alphaedge(disclosure=Disclosure(min_users=2)).asks_for_new_ids
