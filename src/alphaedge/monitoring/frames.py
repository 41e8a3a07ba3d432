"""A fleet at a moment, as one of its edges sees it, and what happened between two moments. Pure.

A frame has the edges that changed since the frame before it, so that a fleet of hundreds costs little; the first frame
of a history has all of them. Merging two frames that follow each other gives the frame that covers both.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, final

import msgspec

from alphaedge.monitoring.vitals import EdgeView, Link

FADED: Final = 0.02  # a share below this has no say any more
Kind = Literal["joined", "left", "back", "linked", "unlinked", "faded", "refused", "schema", "note"]


@final
class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to an edge; ``peer`` where another had a part in it."""

    time: float
    edge: str
    kind: Kind
    peer: str = ""
    text: str = ""


@final
class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The edges that changed, and what happened, since the frame before."""

    time: float
    edges: dict[str, EdgeView] = {}
    events: tuple[Event, ...] = ()


@final
class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page needs to begin with. edge: who tells. frames: oldest first."""

    edge: str
    now: float
    frames: Sequence[Frame]


def step(before: Mapping[str, EdgeView], after: Mapping[str, EdgeView], time: float) -> Frame:
    """The frame that leads from one state of the fleet to the next."""
    changed = {name: seen for name, seen in after.items() if before.get(name) != seen}
    events = tuple(e for name, seen in changed.items() for e in _events(name, before.get(name), seen, time))
    return Frame(time=time, edges=changed, events=events if before else ())


def merge(first: Frame, second: Frame) -> Frame:
    """One frame for two that follow each other."""
    return Frame(time=second.time, edges={**first.edges, **second.edges}, events=(*first.events, *second.events))


def latest(frames: Sequence[Frame]) -> dict[str, EdgeView]:
    """The state of the fleet after all frames of a history."""
    return {name: seen for frame in frames for name, seen in frame.edges.items()}


def _events(name: str, before: EdgeView | None, after: EdgeView, time: float) -> Iterator[Event]:
    def event(kind: Kind, peer: str = "", text: str = "") -> Event:
        return Event(time=time, edge=name, kind=kind, peer=peer, text=text)

    if before is None:
        yield event("joined")
        return
    if before.alive != after.alive:
        yield event("back" if after.alive else "left")
    if before.mixes != after.mixes:
        yield event("schema", text="the same model schema again" if after.mixes else "another model schema: no mixing")
    was, now = before.vitals, after.vitals
    for peer in now.neighbours:
        if peer not in was.neighbours:
            yield event("linked", peer)
    for peer in was.neighbours:
        if peer not in now.neighbours:
            yield event("unlinked", peer)
    for peer, link in now.links.items():
        old = was.links.get(peer, Link())
        if old.share >= FADED > link.share and peer in now.neighbours:
            yield event("faded", peer)
        if link.refused > old.refused:
            yield event("refused", peer)
