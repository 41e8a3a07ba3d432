"""The story of a demonstration: what was done, who noticed and when; everything else is a number."""

from alphaedge.demo.scenario import Incident
from alphaedge.demo.story import tell
from alphaedge.monitoring.frames import EventKind, FleetEvent


def event(time: float, edge: str, kind: EventKind, peer: str = "", reason: str = "") -> FleetEvent:
    return FleetEvent(time=time, edge=edge, kind=kind, peer=peer, reason=reason)


TURN = (10.0, Incident(0.3, "hostile", "mad"))


def test_changes_of_peers_are_counted_and_not_told() -> None:
    kinds: list[EventKind] = [
        "neighbour_added",
        "neighbour_removed",
        "neighbour_faded",
        "peer_excluded",
        "exclusion_ended",
    ]
    story = tell([TURN], [event(20.0 + n, "oslo", kind, "rome") for n, kind in enumerate(kinds)])
    assert [line.text for line in story.lines] == [TURN[1].describe()]
    assert story.changes == len(kinds)


def test_each_edge_that_notices_a_hostile_one_is_told_once_and_when() -> None:
    harmful = "worse than alone by 40%"
    events = [
        event(8.0, "rome", "peer_excluded", "mad", "no model for 3 rounds"),  # before it turned hostile
        event(14.0, "oslo", "peer_excluded", "mad", harmful),
        event(19.0, "oslo", "exclusion_ended", "mad"),
        event(24.0, "oslo", "peer_excluded", "mad", harmful),
        event(31.0, "rome", "peer_excluded", "mad", harmful),
        event(40.0, "mad", "peer_excluded", "rome", harmful),  # the hostile edge itself is no witness
    ]
    story = tell([TURN], events)
    assert [line.text for line in story.lines if not line.incident] == [
        f"oslo excluded mad: {harmful} (4 s after it turned hostile)",
        f"rome excluded mad: {harmful} (21 s after it turned hostile)",
    ]
    assert story.changes == 4


def test_an_edge_that_goes_and_comes_back_is_told_each_time_in_order_with_what_was_done() -> None:
    incidents = [(10.0, Incident(0.5, "kill", "lima")), (20.0, Incident(0.6, "restart", "lima"))]
    events = [
        event(25.0, "lima", "up"),
        event(12.0, "lima", "down"),
        event(1.0, "lima", "joined"),
        event(40.0, "lima", "down"),
    ]
    story = tell(incidents, events)
    assert [(line.time, line.incident) for line in story.lines] == [
        (10.0, True),
        (12.0, False),
        (20.0, True),
        (25.0, False),
        (40.0, False),
    ]
    assert story.changes == 0


def test_the_two_ends_of_a_cut_link_let_go_of_each_other() -> None:
    cut = [(10.0, Incident(0.7, "cut", "oslo", "rome"))]
    removed = [event(9.0, "oslo", "neighbour_removed", "rome"), event(11.0, "rome", "neighbour_removed", "oslo")]
    story = tell(cut, [*removed, event(12.0, "rome", "neighbour_removed", "lima")])
    assert [line.text for line in story.lines][1:] == ["rome no longer learns from oslo"]
    assert story.changes == 2
