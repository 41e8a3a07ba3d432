"""An edge hears others beside its neighbours: it pulls their tallies alone, and in the same round."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.peers.commands import DropPeers, FinishRound, Pull
from alphaedge.edge.peers.events import PullEnded, RoundDue, RoundFinished, RoundStarted
from alphaedge.edge.peers.pulls import PendingPull, Pulls
from alphaedge.edge.peers.wire import unpack_answer
from alphaedge.edge.trust.wire_secrets import WireSecrets
from alphaedge.errors import ModelRefused, PeerError

from ..processes import EVERY
from .test_decisions import DENY_BOSTON, Edge, fleet, model
from .test_driver import learning


class Pair:
    """Berlin, which hears Boston, and Boston, which has published."""

    def __init__(self, folder: Path) -> None:
        self.berlin = learning(folder / "berlin", EVERY)
        self.boston = learning(folder / "boston", EVERY, edge="boston")
        for loop in (self.berlin, self.boston):
            while loop.step_alone():
                pass
        self.berlin.learner.links.listen(["boston"])
        self.asking, self.answering = (self.pulls(loop) for loop in (self.berlin, self.boston))

    def pulls(self, loop: LearningLoop) -> Pulls:
        return Pulls(loop.learner, self.berlin.schema, WireSecrets(b""))

    def answer(self, pending: PendingPull) -> bytes:
        return self.answering.answer_tallies("berlin", *self.answering.read_request("berlin", pending.data))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_tallies_alone_are_pulled_as_they_were_published(pair: Pair) -> None:
    pending = pair.asking.request_tallies("boston")
    assert pending.route == "tallies"
    answer = pair.answer(pending)
    assert len(answer) <= pending.max_bytes
    pulled = pair.asking.accept("boston", pending, answer)
    assert pulled.number == pair.boston.learner.publication.number
    assert not pulled.dense.numel()
    assert not pulled.statistics
    for t, (keys, rows) in enumerate(zip(pulled.keys, pulled.rows, strict=True)):
        table = pair.boston.learner.tables[t]
        assert len(keys)
        assert torch.equal(rows, table.published[table.rows(keys), table.width :])
        assert bool((rows[:, 0] > 0).all()), "counted on some event"


def test_an_answer_has_neither_a_dense_part_nor_parameters(pair: Pair) -> None:
    _, tensors = unpack_answer(pair.answer(pair.asking.request_tallies("boston")))
    assert set(tensors) == {
        f"{part}.{t}" for part in ("rows", "places") for t in range(len(pair.boston.learner.tables))
    }
    assert all(tensor.shape[1] == 2 for name, tensor in tensors.items() if name.startswith("rows"))


def test_what_is_held_already_is_not_pulled_again(pair: Pair) -> None:
    learner, pending = pair.berlin.learner, pair.asking.request_tallies("boston")
    pulled = pair.asking.accept("boston", pending, pair.answer(pending))
    learner.heard.take("boston", pulled)
    learner.links.ears["boston"].publication, learner.links.ears["boston"].pulled_at = pulled.number, 10**6
    again = pair.asking.request_tallies("boston")
    assert len(again.data) < len(pending.data), "keys that were sent are not sent again"
    assert all(len(keys) == 0 for keys in pair.asking.accept("boston", again, pair.answer(again)).keys)
    held = learner.heard.held["boston"]
    assert held.number == pulled.number
    assert sum(int((rows[:, 0] > 0).sum()) for rows in held.rows) == sum(map(len, pulled.keys))


LIES = {
    "rows with parameters": lambda tensors: {"rows.0": torch.zeros(len(tensors["rows.0"]), 5)},
    "bytes": lambda tensors: {"rows.0": torch.zeros(len(tensors["rows.0"]) * 6, dtype=torch.uint8)},
    "a dense part": lambda tensors: {"dense": torch.zeros(3)},
    "fewer than no events": lambda tensors: {"rows.0": -torch.ones(len(tensors["rows.0"]), 2)},
    "not a number": lambda tensors: {"rows.0": torch.full((len(tensors["rows.0"]), 2), torch.nan)},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lies_about_tallies_are_refused(pair: Pair, lie: object) -> None:
    assert callable(lie)
    pending = pair.asking.request_tallies("boston")
    answer = pair.answer(pending)
    tensors = load(answer)
    about = '{"schema":"%s","number":6,"records":1000}' % pair.berlin.schema  # noqa: UP031  braces
    with pytest.raises(ModelRefused):
        pair.asking.accept("boston", pending, save(tensors | lie(tensors), {"alphaedge": about}))


def test_a_peer_that_is_no_longer_heard_is_not_asked(pair: Pair) -> None:
    pair.berlin.learner.drop("boston")
    with pytest.raises(PeerError, match="no longer heard"):
        pair.asking.request_tallies("boston")


# -- decisions --


def round_with(edge: Edge, neighbours: tuple[str, ...], others: tuple[str, ...]) -> dict[str, Pull]:
    edge.observe(neighbours=neighbours, others=others)
    edge.on(RoundDue())
    return {c.peer: c for c in edge.on(RoundStarted(neighbours, others)) if isinstance(c, Pull)}


def test_a_round_waits_for_models_and_tallies() -> None:
    edge = Edge()
    pulls = round_with(edge, ("boston",), ("paris",))
    assert {peer: pull.purpose for peer, pull in pulls.items()} == {"boston": "round", "paris": "tallies"}
    assert edge.on(PullEnded(pulls["boston"].ticket, model(7))) == []
    (finish,) = edge.on(PullEnded(pulls["paris"].ticket, model(4)))
    assert isinstance(finish, FinishRound)
    assert {peer: m.number for peer, m in finish.models.items()} == {"boston": 7}
    assert {peer: m.number for peer, m in finish.tallies.items()} == {"paris": 4}
    assert not finish.absent


def test_a_peer_whose_tallies_do_not_come_is_not_absent() -> None:
    edge = Edge()
    pulls = round_with(edge, ("boston",), ("paris",))
    edge.on(PullEnded(pulls["paris"].ticket, None))
    (finish,) = edge.on(PullEnded(pulls["boston"].ticket, model(7)))
    assert isinstance(finish, FinishRound)
    assert (finish.tallies, finish.absent) == ({}, [])


def test_tallies_that_come_late_count_in_the_next_round_if_the_peer_is_still_heard() -> None:
    for still, expected in ((("paris",), {"paris": 4}), ((), {})):
        edge = Edge(pulls_ahead=True)
        edge.observe(neighbours=("boston",), others=("paris",))
        edge.on(RoundDue())
        edge.on(RoundStarted(("boston",), ("paris",)))
        edge.on(RoundFinished(("boston",), ("paris",)))
        pull = edge.decisions._pull("tallies", "paris")
        edge.on(RoundDue())
        edge.on(RoundStarted(("boston",), ("paris",)))
        edge.on(RoundFinished(("boston",), still))
        edge.on(PullEnded(pull.ticket, model(4)))
        edge.on(RoundDue())
        (finish,) = (c for c in edge.on(RoundStarted(("boston",), still)) if isinstance(c, FinishRound))
        assert {peer: m.number for peer, m in finish.tallies.items()} == expected


def test_a_policy_that_closes_the_link_to_an_other_drops_it_at_once() -> None:
    edge = Edge()
    pulls = round_with(edge, ("paris",), ("boston",))
    edge.on(PullEnded(pulls["boston"].ticket, model(3)))
    closed = edge.observe(policy=DENY_BOSTON)
    assert DropPeers(["boston"]) in closed
    (finish,) = edge.on(PullEnded(pulls["paris"].ticket, model(7)))
    assert isinstance(finish, FinishRound)
    assert finish.tallies == {}


def test_nobody_is_asked_for_tallies_who_has_published_nothing_or_rests() -> None:
    edge = Edge()
    edge.observe(fleet=fleet("boston", "paris") | fleet("tokyo", publication=0), resting=frozenset({"paris"}))
    assert set(round_with(edge, ("boston",), ("paris", "tokyo"))) == {"boston"}
