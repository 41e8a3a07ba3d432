"""What an edge decides about its peers, as sequences of events: races, stops and policies, without a clock."""

import random
from typing import Any

import pytest
import torch

from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.peers.commands import (
    AdoptRows,
    Announce,
    Command,
    DropPeers,
    FindNewIds,
    FinishRound,
    Log,
    Pull,
    StartFrom,
    StartRound,
)
from alphaedge.edge.peers.decisions import PeerDecisions
from alphaedge.edge.peers.events import (
    Event,
    NewIdsFound,
    Observed,
    PullEnded,
    RoundDue,
    RoundFinished,
    RoundStarted,
    Started,
    Stopped,
)
from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.policy import Member, Policy

SCHEMA = "s1"
ALLOW = Policy()
DENY_BOSTON = Policy.parse("deny from=boston to=berlin")


def announcement(edge: str, *, schema: str = SCHEMA, publication: int = 1, region: str = "US") -> Announcement:
    return Announcement(
        edge=edge, region=region, address=f"{edge}:1", schema=schema, version=1, publication=publication, shares={}
    )


def fleet(*edges: str, **changes: Any) -> dict[str, Announcement]:
    return {edge: announcement(edge, **changes) for edge in edges}


def model(number: int = 1) -> PulledModel:
    return PulledModel(number, 10, torch.zeros(2), {}, (), ())


class Edge:
    """The decisions of berlin, and the time."""

    def __init__(self, *, wants_model: bool = False, **options: Any) -> None:
        options = {"cold_start": False, "rng": random.Random(0)} | options
        self.decisions = PeerDecisions(Member("berlin", "DE"), SCHEMA, **options)
        self.now = 100.0
        self.sees: dict[str, Any] = {"fleet": fleet("boston", "paris"), "policy": ALLOW, "neighbours": ()}
        self.on(Started(wants_model))

    def on(self, event: Event, after: float = 0.0) -> list[Command]:
        self.now += after
        return self.decisions.handle(event, self.now)

    def observe(self, after: float = 0.0, **changes: Any) -> list[Command]:
        self.sees |= changes
        return self.on(Observed(**self.sees), after)

    def round(self, *neighbours: str) -> dict[str, Pull]:
        """Begin a round with these neighbours; the pulls that it starts, by peer."""
        self.observe(neighbours=neighbours)
        assert [type(c) for c in self.on(RoundDue())] == [StartRound]
        return {c.peer: c for c in self.on(RoundStarted(neighbours)) if isinstance(c, Pull)}


def kinds(commands: list[Command]) -> list[type]:
    return [type(c) for c in commands if not isinstance(c, Log)]


def asked(commands: list[Command]) -> list[Pull]:
    return [c for c in commands if isinstance(c, Pull)]


# -- rounds --


def test_a_round_publishes_pulls_and_then_mixes_what_came() -> None:
    edge = Edge()
    pulls = edge.round("boston", "paris")
    assert set(pulls) == {"boston", "paris"}
    assert edge.on(PullEnded(pulls["boston"].ticket, model(7))) == []
    (finish,) = edge.on(PullEnded(pulls["paris"].ticket, None))
    assert isinstance(finish, FinishRound)
    assert {peer: m.number for peer, m in finish.models.items()} == {"boston": 7}
    assert finish.candidates == ["berlin", "boston", "paris"]
    assert edge.decisions.phase == "round"
    edge.on(RoundFinished(("boston",)))
    assert edge.decisions.phase == "learning"


def test_two_rounds_never_run_at_once() -> None:
    edge = Edge()
    pulls = edge.round("boston")
    assert edge.on(RoundDue()) == []
    assert kinds(edge.on(PullEnded(pulls["boston"].ticket, model()))) == [FinishRound]
    assert edge.on(RoundDue()) == [], "the learner still mixes"
    edge.on(RoundFinished(("boston",)))
    assert kinds(edge.on(RoundDue())) == [StartRound]


def test_a_pull_that_ends_after_its_round_changes_nothing() -> None:
    edge = Edge()
    late = edge.round("boston")["boston"]
    closed = edge.observe(policy=DENY_BOSTON)  # the round does not wait for it any more
    assert kinds(closed) == [DropPeers, FinishRound, Announce]
    edge.on(RoundFinished(()))
    assert edge.on(PullEnded(late.ticket, model())) == []
    edge.observe(policy=ALLOW)
    again = edge.round("boston")["boston"]
    assert again.ticket != late.ticket
    assert edge.on(PullEnded(late.ticket, model(3))) == [], "nor does it count for the next round"
    (finish,) = edge.on(PullEnded(again.ticket, model(4)))
    assert isinstance(finish, FinishRound)
    assert finish.models["boston"].number == 4


def test_a_policy_that_closes_a_link_in_the_middle_of_a_pull_takes_the_peer_out_of_the_round() -> None:
    edge = Edge()
    pulls = edge.round("boston", "paris")
    assert kinds(edge.observe(policy=DENY_BOSTON)) == [DropPeers, Announce]
    assert edge.on(PullEnded(pulls["boston"].ticket, model())) == []
    (finish,) = edge.on(PullEnded(pulls["paris"].ticket, model()))
    assert isinstance(finish, FinishRound)
    assert set(finish.models) == {"paris"}
    assert "boston" not in finish.candidates


def test_a_model_that_came_before_the_policy_closed_its_link_is_not_mixed() -> None:
    edge = Edge()
    pulls = edge.round("boston", "paris")
    edge.on(PullEnded(pulls["boston"].ticket, model()))
    edge.observe(policy=DENY_BOSTON)
    (finish,) = edge.on(PullEnded(pulls["paris"].ticket, model()))
    assert isinstance(finish, FinishRound)
    assert set(finish.models) == {"paris"}


def test_a_round_without_anybody_to_pull_from_ends_at_once() -> None:
    edge = Edge()
    edge.observe(fleet={}, neighbours=("boston",))
    edge.on(RoundDue())
    assert kinds(edge.on(RoundStarted(("boston",)))) == [FinishRound]


def test_a_new_publication_is_announced_soon_and_no_round_waits_for_that() -> None:
    edge = Edge()
    assert Announce not in kinds(edge.observe(after=0.1))
    pulls = edge.round("boston")
    assert kinds(edge.observe(after=0.1)) == [Announce]
    edge.on(PullEnded(pulls["boston"].ticket, model()))
    edge.on(RoundFinished(("boston",)))
    assert Announce not in kinds(edge.observe(after=0.1))


@pytest.mark.parametrize(
    "changes",
    [
        {"fleet": fleet("boston", publication=0)},
        {"fleet": fleet("boston", schema="other")},
        {"resting": frozenset({"boston"})},
        {"policy": DENY_BOSTON},
    ],
    ids=["nothing published", "another schema", "resting after failures", "forbidden"],
)
def test_nobody_is_pulled_from_who_has_nothing_to_give(changes: dict[str, Any]) -> None:
    edge = Edge()
    edge.sees |= changes
    assert edge.round("boston") == {}


def test_an_edge_that_publishes_its_mix_announces_it_after_the_round() -> None:
    edge = Edge(announces_mix=True)
    pulls = edge.round("boston")
    edge.observe()
    edge.on(PullEnded(pulls["boston"].ticket, model()))
    edge.on(RoundFinished(("boston",)))
    assert kinds(edge.observe(after=0.1)) == [Announce]


# -- a model to start from --


def test_a_new_edge_starts_from_the_models_of_several_peers() -> None:
    edge = Edge(wants_model=True)
    first, second = asked(edge.observe())
    assert {first.purpose, second.purpose} == {"start"}
    assert edge.on(PullEnded(first.ticket, model(5))) == []
    started, *_ = edge.on(PullEnded(second.ticket, model(7)))
    assert isinstance(started, StartFrom)
    assert {peer: m.number for peer, m in started.models.items()} == {first.peer: 5, second.peer: 7}
    assert edge.decisions.phase == "learning"


def test_a_new_edge_asks_five_peers_and_waits_for_all_of_them() -> None:
    edge = Edge(wants_model=True)
    pulls = asked(edge.observe(fleet=fleet(*"abcdefgh")))
    assert len({pull.peer for pull in pulls}) == 5
    assert [edge.on(PullEnded(pull.ticket, model())) for pull in pulls[:4]] == [[]] * 4, "the quickest may be hostile"
    started, *_ = edge.on(PullEnded(pulls[4].ticket, model()))
    assert isinstance(started, StartFrom)
    assert len(started.models) == 5


def test_a_new_edge_beside_peers_that_never_answer_learns_alone() -> None:
    edge = Edge(wants_model=True)
    assert len(asked(edge.observe())) == 2
    edge.observe(after=9.9)
    assert edge.decisions.phase == "starting"
    assert not any(isinstance(c, StartFrom) for c in edge.observe(after=0.2))
    assert edge.decisions.phase == "learning"


def test_a_peer_that_is_banned_after_its_model_has_come_is_not_started_from() -> None:
    edge = Edge(wants_model=True)
    by_peer = {pull.peer: pull for pull in asked(edge.observe())}
    edge.on(PullEnded(by_peer["boston"].ticket, model(5)))
    edge.observe(policy=DENY_BOSTON)
    (started, *_) = edge.on(PullEnded(by_peer["paris"].ticket, model(7)))
    assert isinstance(started, StartFrom)
    assert list(started.models) == ["paris"]


def test_a_slow_peer_does_not_hold_up_a_new_edge_that_has_another_model() -> None:
    edge = Edge(wants_model=True)
    first, _ = asked(edge.observe())
    edge.on(PullEnded(first.ticket, model()))
    assert not any(isinstance(c, StartFrom) for c in edge.observe(after=9.0))
    (started,) = [c for c in edge.observe(after=1.1) if isinstance(c, StartFrom)]
    assert list(started.models) == [first.peer]


def test_a_new_edge_asks_again_when_all_fail() -> None:
    edge = Edge(wants_model=True)
    for pull in asked(edge.observe()):
        assert edge.on(PullEnded(pull.ticket, None)) == []
    assert len(asked(edge.observe(after=0.2))) == 2, "as long as there is time"


def test_a_peer_with_a_model_is_asked_even_if_nothing_was_seen_for_a_while() -> None:
    edge = Edge(wants_model=True)
    edge.observe(fleet={})
    assert any(isinstance(c, Pull) for c in edge.observe(fleet=fleet("boston"), after=5.0))


def test_a_stop_while_an_edge_looks_for_a_model_leaves_it_as_it_is() -> None:
    edge = Edge(wants_model=True)
    pull, _ = asked(edge.observe())
    assert edge.on(Stopped()) == []
    assert edge.on(PullEnded(pull.ticket, model())) == []
    assert edge.observe(after=60.0) == []
    assert edge.decisions.phase == "stopped"


def test_a_peer_that_became_forbidden_while_it_was_asked_is_not_started_from() -> None:
    edge = Edge(wants_model=True, rng=random.Random(0))
    edge.sees["fleet"] = fleet("boston")
    (pull,) = [c for c in edge.observe() if isinstance(c, Pull)]
    edge.observe(policy=DENY_BOSTON)
    assert edge.on(PullEnded(pull.ticket, model())) == []
    assert edge.decisions.phase == "starting"


@pytest.mark.parametrize(
    ("seen", "has_feedback", "seconds"),
    [({}, False, 10.0), ({}, True, 1.0), (fleet("boston", publication=0), False, 1.0)],
    ids=["nobody is heard of", "there is feedback to learn from", "peers know as little"],
)
def test_a_new_edge_does_not_look_for_a_model_forever(
    seen: dict[str, Announcement], has_feedback: bool, seconds: float
) -> None:
    edge = Edge(wants_model=True)
    edge.observe(fleet=seen, has_feedback=has_feedback)
    edge.observe(after=seconds - 0.1)
    assert edge.decisions.phase == "starting"
    edge.observe(after=0.2)
    assert edge.decisions.phase == "learning"


def test_an_edge_that_has_learned_before_begins_at_once() -> None:
    assert Edge(wants_model=False).decisions.phase == "learning"


# -- new ids --


def test_rows_of_new_ids_are_pulled_from_neighbours_and_adopted_together() -> None:
    edge = Edge(cold_start=True)
    assert FindNewIds in kinds(edge.observe(neighbours=("boston",), after=1.0))
    assert FindNewIds not in kinds(edge.observe(after=1.0)), "one search at a time"
    (pull,) = edge.on(NewIdsFound([torch.tensor([3])]))
    assert isinstance(pull, Pull)
    assert (pull.peer, pull.purpose) == ("boston", "rows")
    assert kinds(edge.on(PullEnded(pull.ticket, model()))) == [AdoptRows]
    assert FindNewIds in kinds(edge.observe(after=1.0))


def test_before_the_first_round_anybody_is_asked_about_new_ids() -> None:
    edge = Edge(cold_start=True)
    edge.observe(after=1.0)
    assert {c.peer for c in edge.on(NewIdsFound([torch.tensor([3])])) if isinstance(c, Pull)} == {"boston", "paris"}


def test_without_new_ids_nobody_is_asked() -> None:
    edge = Edge(cold_start=True)
    edge.observe(after=1.0)
    assert edge.on(NewIdsFound([torch.empty(0, dtype=torch.long)])) == []
    assert FindNewIds in kinds(edge.observe(after=1.0))


# -- announcements and schemas --


def test_an_edge_announces_itself_now_and_then_and_more_rarely_in_a_large_fleet() -> None:
    edge = Edge()
    assert edge.observe(after=1.9) == []
    assert kinds(edge.observe(after=0.2)) == [Announce]
    edge.sees["fleet"] = fleet(*(f"edge{n}" for n in range(200)))
    assert kinds(edge.observe(after=9.8)) == []
    assert kinds(edge.observe(after=0.3)) == [Announce]


def test_an_edge_of_another_schema_is_logged_once_and_again_when_it_fits() -> None:
    edge = Edge()
    differs = edge.observe(fleet=fleet("boston", schema="other"))
    assert [c.event for c in differs if isinstance(c, Log)] == ["peer_schema_differs"]
    assert not [c for c in edge.observe() if isinstance(c, Log)]
    matches = edge.observe(fleet=fleet("boston"))
    assert [c.event for c in matches if isinstance(c, Log)] == ["peer_schema_matches"]
