"""Frames: the state of a fleet at a moment, as one of its edges sees it, and the events since the frame before. Pure.

A frame holds only the edges that changed since the frame before, so that a fleet of hundreds costs little; the first
frame of a history holds all edges. Two frames that follow each other can be merged into one that covers both.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, final

import msgspec

from alphaedge.monitoring.vitals import EdgeView, Link

FADED_SHARE: Final = 0.02  # a neighbour with a smaller share hardly counts in the mix
EventKind = Literal[
    "joined",
    "down",
    "up",
    "neighbour_added",
    "neighbour_removed",
    "neighbour_faded",
    "model_refused",
    "peer_excluded",
    "exclusion_ended",
    "schema_differs",
    "schema_matches",
]
_SENTENCES: Final[Mapping[EventKind, str]] = {
    "joined": "{edge} joined",
    "down": "{edge} stopped answering",
    "up": "{edge} answers again",
    "neighbour_added": "{edge} now learns from {peer}",
    "neighbour_removed": "{edge} no longer learns from {peer}",
    "neighbour_faded": "{edge} gives {peer} almost no weight",
    "model_refused": "{edge} refused a model of {peer}",
    "peer_excluded": "{edge} excluded {peer}: {reason}",
    "exclusion_ended": "{edge} may choose {peer} again",
    "schema_differs": "{edge} has another schema and can't mix",
    "schema_matches": "{edge} has the fleet's schema again",
}


@final
class FleetEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to an edge. time: seconds since 1970. peer: the other edge, if there is one.

    reason: why a peer was excluded.
    """

    time: float
    edge: str
    kind: EventKind
    peer: str = ""
    reason: str = ""

    def describe(self) -> str:
        """Return the event as a sentence."""
        return _SENTENCES[self.kind].format(edge=self.edge, peer=self.peer, reason=self.reason)


@final
class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The edges that changed, and the events, since the frame before. time: seconds since 1970."""

    time: float
    edges: dict[str, EdgeView] = {}
    events: tuple[FleetEvent, ...] = ()


@final
class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The history of a fleet. edge: the edge that saw it. now: its time, seconds since 1970. frames: oldest first."""

    edge: str
    now: float
    frames: Sequence[Frame]


def make_frame(before: Mapping[str, EdgeView], after: Mapping[str, EdgeView], time: float) -> Frame:
    """Return the frame that leads from one state of the fleet to the next."""
    changed = {name: view for name, view in after.items() if before.get(name) != view}
    events = tuple(e for name, view in changed.items() for e in _events(name, before.get(name), view, time))
    return Frame(time=time, edges=changed, events=events if before else ())


def merge_frames(first: Frame, second: Frame) -> Frame:
    """Merge two frames that follow each other."""
    return Frame(time=second.time, edges={**first.edges, **second.edges}, events=(*first.events, *second.events))


def latest_state(frames: Sequence[Frame]) -> dict[str, EdgeView]:
    """Return the state of the fleet after all frames of a history."""
    return {name: view for frame in frames for name, view in frame.edges.items()}


def _events(name: str, before: EdgeView | None, after: EdgeView, time: float) -> Iterator[FleetEvent]:
    def event(kind: EventKind, peer: str = "", reason: str = "") -> FleetEvent:
        return FleetEvent(time=time, edge=name, kind=kind, peer=peer, reason=reason)

    if before is None:
        yield event("joined")
        return
    if before.alive != after.alive:
        yield event("up" if after.alive else "down")
    if before.same_schema != after.same_schema:
        yield event("schema_matches" if after.same_schema else "schema_differs")
    old, new = before.vitals, after.vitals
    for peer in new.neighbours:
        if peer not in old.neighbours:
            yield event("neighbour_added", peer)
    for peer in old.neighbours:
        if peer not in new.neighbours:
            yield event("neighbour_removed", peer)
    for peer, link in new.links.items():
        old_link = old.links.get(peer, Link())
        if old_link.share >= FADED_SHARE > link.share and peer in new.neighbours:
            yield event("neighbour_faded", peer)
        if link.refused > old_link.refused:
            yield event("model_refused", peer)
        if link.excluded and not old_link.excluded:
            yield event("peer_excluded", peer, link.excluded)
        if old_link.excluded and not link.excluded and link.state not in ("down", "other schema"):
            yield event("exclusion_ended", peer)
