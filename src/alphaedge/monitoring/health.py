"""How a fleet is doing, edge by edge, in words: for a table, a script and an exit code. Pure."""

from collections.abc import Mapping
from typing import Final, Literal, final

import msgspec

from alphaedge.monitoring.vitals import EdgeView

STALE: Final = 3  # publications of a peer that an edge may lack
State = Literal["ok", "waiting", "alone", "stale", "other schema", "down"]
SICK: Final = frozenset[State]({"alone", "stale", "other schema", "down"})


@final
class EdgeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One edge. waiting: it is there and has not learned a batch yet. alone: it is there, and none of its peers is."""

    edge: str
    region: str
    state: State
    score: float | None
    recent: float | None
    batches: int
    aggregations: int
    p99: float | None
    bytes: int
    refused: int
    peers: dict[str, float]


def edge_health(name: str, seen: EdgeView, fleet: Mapping[str, EdgeView]) -> EdgeHealth:
    """What is to be said of an edge."""
    vitals = seen.vitals
    return EdgeHealth(
        edge=name,
        region=seen.region,
        state=_state(seen, fleet),
        score=vitals.score,
        recent=vitals.recent,
        batches=vitals.batches,
        aggregations=vitals.aggregations,
        p99=vitals.p99,
        bytes=sum(link.bytes for link in vitals.links.values()),
        refused=sum(link.refused for link in vitals.links.values()),
        peers={peer: vitals.links[peer].share if peer in vitals.links else 0.0 for peer in vitals.neighbours},
    )


def fleet_health(fleet: Mapping[str, EdgeView]) -> list[EdgeHealth]:
    """All edges, in the order of their names."""
    return [edge_health(name, fleet[name], fleet) for name in sorted(fleet)]


def is_healthy(found: list[EdgeHealth]) -> bool:
    """Whether nothing needs a look."""
    return bool(found) and all(one.state not in SICK for one in found)


def _state(seen: EdgeView, fleet: Mapping[str, EdgeView]) -> State:
    if not seen.alive:
        return "down"
    if not seen.mixes:
        return "other schema"
    vitals = seen.vitals
    if not vitals.batches:
        return "waiting"
    there = [peer for peer in vitals.neighbours if peer in fleet and fleet[peer].alive]
    if vitals.neighbours and not there:
        return "alone"
    behind = [vitals.links[peer].behind for peer in there if peer in vitals.links]
    return "stale" if behind and min(behind) > STALE else "ok"
