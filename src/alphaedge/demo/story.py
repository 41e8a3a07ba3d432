"""The story of a demonstration: what a person wants to be told of all that happens in a fleet. Pure.

Edges choose other neighbours all the time: that is how the method works, and hundreds of events in two minutes. Of
those only the number is told. The story is what was done to the fleet, and how the fleet took it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from alphaedge.demo.scenario import Incident
from alphaedge.monitoring.frames import EventKind, FleetEvent

ALWAYS_TOLD: Final = frozenset[EventKind]({"down", "up", "schema_differs", "schema_matches"})
NOTICED: Final = frozenset[EventKind]({"peer_excluded", "model_refused"})


@final
@dataclass(frozen=True, order=True)
class StoryLine:
    """A sentence. time: seconds since 1970. incident: whether it was done to the fleet, or the fleet did it."""

    time: float
    text: str
    incident: bool


@final
@dataclass(frozen=True)
class Story:
    """Lines in order of time. changes: how many changes of peers are not told."""

    lines: Sequence[StoryLine]
    changes: int


def tell(incidents: Sequence[tuple[float, Incident]], events: Sequence[FleetEvent]) -> Story:
    """Tell the story so far. incidents: with their times, seconds since 1970.

    Told are incidents, edges that stop answering or are back, the first time that each edge notices a hostile one, and
    that the two ends of a link that was cut let go of each other.
    """
    turned = {incident.edge: at for at, incident in incidents if incident.kind == "hostile"}
    cuts = {frozenset((i.edge, i.peer)): at for at, i in incidents if i.kind == "cut"}
    lines = [StoryLine(at, incident.describe(), True) for at, incident in incidents]
    seen: set[tuple[str, str, str]] = set()
    changes = 0
    for event in sorted(events, key=lambda event: event.time):
        text = _sentence(event, turned, cuts)
        part = (event.kind, event.edge, event.peer)
        if event.kind in ALWAYS_TOLD or (text and part not in seen):
            lines.append(StoryLine(event.time, text, False))
        elif event.kind != "joined":
            changes += 1
        if text:
            seen.add(part)
    return Story(sorted(lines), changes)


def _sentence(event: FleetEvent, turned: Mapping[str, float], cuts: Mapping[frozenset[str], float]) -> str:
    """What is told of an event; empty if it is one of many changes of peers."""
    if event.kind in ALWAYS_TOLD:
        return event.describe()
    since = event.time - turned.get(event.peer, event.time)
    if event.kind in NOTICED and since > 0 and event.edge not in turned:
        return f"{event.describe()} ({since:.0f} s after it turned hostile)"
    if event.kind == "neighbour_removed" and event.time > cuts.get(frozenset((event.edge, event.peer)), event.time):
        return event.describe()
    return ""
