"""Pulls ahead of a round: it mixes what has come, and waits for nobody."""

from alphaedge.edge.peers.commands import Command, FinishRound, Pull, StartPulls, StartRound
from alphaedge.edge.peers.events import PullEnded, PullsDue, PullsStarted, RoundDue, RoundFinished, RoundStarted

from .test_decisions import DENY_BOSTON, Edge, fleet, kinds, model


def ahead() -> Edge:
    """An edge that has had a round since its start."""
    edge = Edge(pulls_ahead=True)
    edge.on(RoundDue())
    edge.on(RoundStarted(()))
    edge.on(RoundFinished(()))
    edge.observe(neighbours=("boston", "paris"))
    return edge


def pulls(edge: Edge, *neighbours: str) -> dict[str, Pull]:
    """Let the pulls for the next round begin; those that do, by peer."""
    assert kinds(edge.on(PullsDue())) == [StartPulls]
    return {c.peer: c for c in edge.on(PullsStarted(neighbours)) if isinstance(c, Pull)}


def mixed(edge: Edge, *neighbours: str) -> dict[str, int]:
    """Run a round; the numbers of the publications that it mixes."""
    assert kinds(edge.on(RoundDue())) == [StartRound]
    (finish,) = finished(edge.on(RoundStarted(neighbours)))
    edge.on(RoundFinished(neighbours))
    return {peer: m.number for peer, m in finish.models.items()}


def finished(commands: list[Command]) -> list[FinishRound]:
    return [c for c in commands if isinstance(c, FinishRound)]


def test_a_round_mixes_what_has_come_and_does_not_wait_for_the_rest() -> None:
    edge = ahead()
    under_way = pulls(edge, "boston", "paris")
    assert edge.on(PullEnded(under_way["boston"].ticket, model(7))) == [], "a round comes when it is due, not before"
    assert mixed(edge, "boston", "paris") == {"boston": 7}


def test_a_model_that_comes_after_its_round_is_mixed_in_the_next_one_and_not_pulled_twice() -> None:
    edge = ahead()
    late = pulls(edge, "boston", "paris")["paris"]
    assert mixed(edge, "boston", "paris") == {}
    assert set(pulls(edge, "boston", "paris")) == set(), "both pulls are still under way"
    assert edge.on(PullEnded(late.ticket, model(3))) == []
    assert mixed(edge, "boston", "paris") == {"paris": 3}
    assert mixed(edge, "boston", "paris") == {}, "each model is mixed once"


def test_a_neighbour_that_has_published_something_that_does_not_come_is_absent() -> None:
    edge = ahead()
    edge.observe(fleet=fleet("boston", "paris") | fleet("tokyo", publication=0))
    under_way = pulls(edge, "boston", "paris", "tokyo")
    edge.on(PullEnded(under_way["boston"].ticket, model()))
    edge.on(RoundDue(), after=5.0)
    (finish,) = finished(edge.on(RoundStarted(("boston", "paris", "tokyo"))))
    assert finish.absent == ["paris"], "tokyo has nothing to give yet"


def test_a_pull_that_has_just_begun_is_not_late() -> None:
    edge = ahead()
    under_way = pulls(edge, "boston", "paris")
    edge.on(PullEnded(under_way["boston"].ticket, None))
    edge.on(RoundDue())
    (finish,) = finished(edge.on(RoundStarted(("boston", "paris"))))
    assert finish.absent == ["boston"], "its pull has failed; that of paris is under way"


def test_a_model_of_a_peer_that_is_no_neighbour_any_more_does_not_count() -> None:
    edge = ahead()
    late = pulls(edge, "boston", "paris")
    assert mixed(edge, "boston") == {}
    assert edge.on(PullEnded(late["paris"].ticket, model())) == []
    assert mixed(edge, "boston") == {}
    assert set(pulls(edge, "boston", "paris")) == {"paris"}, "chosen again, it is asked again"


def test_a_policy_that_closes_a_link_takes_its_model_out_of_the_round_to_come() -> None:
    edge = ahead()
    under_way = pulls(edge, "boston", "paris")
    edge.on(PullEnded(under_way["boston"].ticket, model()))
    edge.observe(policy=DENY_BOSTON)
    edge.on(PullEnded(under_way["paris"].ticket, model(2)))
    assert mixed(edge, "paris") == {"paris": 2}


def test_no_pull_starts_while_a_round_runs() -> None:
    edge = ahead()
    edge.on(RoundDue())
    assert edge.on(PullsDue()) == []


def test_an_edge_that_starts_with_neighbours_pulls_from_each_as_soon_as_it_hears_of_it() -> None:
    edge = Edge(pulls_ahead=True)
    first = edge.observe(neighbours=("boston", "paris"), fleet=fleet("boston"))
    (boston,) = [c for c in first if isinstance(c, Pull)]
    (paris,) = [c for c in edge.observe(fleet=fleet("boston", "paris")) if isinstance(c, Pull)]
    assert (boston.peer, paris.peer) == ("boston", "paris")
    assert not [c for c in edge.observe() if isinstance(c, Pull)], "each once"
    edge.on(PullEnded(boston.ticket, model(7)))
    edge.on(PullEnded(paris.ticket, model(3)))
    assert mixed(edge, "boston", "paris") == {"boston": 7, "paris": 3}, "a round that comes at once has their models"


def test_neighbours_that_are_heard_of_too_late_for_the_pulls_are_pulled_all_the_same() -> None:
    edge = Edge(pulls_ahead=True)
    edge.observe(neighbours=("boston",), fleet=fleet())
    assert pulls(edge, "boston") == {}, "nobody is heard of yet"
    (late,) = [c for c in edge.observe(fleet=fleet("boston")) if isinstance(c, Pull)]
    edge.on(PullEnded(late.ticket, model(7)))
    assert mixed(edge, "boston") == {"boston": 7}


def test_what_was_pulled_at_the_start_is_pulled_anew_ahead_of_the_round() -> None:
    edge = Edge(pulls_ahead=True)
    commands = edge.observe(neighbours=("boston",))
    (early,) = [c for c in commands if isinstance(c, Pull)]
    edge.on(PullEnded(early.ticket, model(7)))
    under_way = pulls(edge, "boston")
    edge.on(PullEnded(under_way["boston"].ticket, model(9)))
    assert mixed(edge, "boston") == {"boston": 9}


def test_an_edge_without_neighbours_pulls_nothing_at_its_start() -> None:
    assert not [c for c in Edge(pulls_ahead=True).observe(neighbours=()) if isinstance(c, Pull)]
    assert not [c for c in Edge().observe(neighbours=("boston",)) if isinstance(c, Pull)], (
        "nor one that pulls at rounds"
    )
