"""The health of a fleet, one word per edge: for a table, a script and an exit code. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, final

import msgspec

from alphaedge.monitoring.vitals import EXCLUDED, EdgeView

MAX_PUBLICATIONS_BEHIND: Final = 3  # of every neighbour; an edge that is further behind is stale
State = Literal["ok", "waiting", "alone", "stale", "other schema", "down"]
UNHEALTHY: Final = frozenset[State]({"alone", "stale", "other schema", "down"})


@final
class EdgeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one edge.

    state: ``waiting`` has not learned a batch yet; ``alone`` has neighbours, and none of them is up; ``stale`` is too
    far behind all neighbours that are up. bytes, refused: over all links. peers: shares of the neighbours.
    peer_states: of all peers that it has dealt with, in words (``Link.state``).
    """

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
    peer_states: dict[str, str] = {}

    @property
    def left_out(self) -> dict[str, str]:
        """The peers that should take part and do not, with their states: excluded ones, and neighbours that can't."""
        return {
            peer: state
            for peer, state in self.peer_states.items()
            if state.startswith(EXCLUDED) or (peer in self.peers and state in ("down", "other schema"))
        }


def edge_health(name: str, view: EdgeView, fleet: Mapping[str, EdgeView]) -> EdgeHealth:
    """Return the health of an edge in a fleet."""
    vitals = view.vitals
    return EdgeHealth(
        edge=name,
        region=view.region,
        state=_state(view, fleet),
        score=vitals.score,
        recent=vitals.recent,
        batches=vitals.batches,
        aggregations=vitals.aggregations,
        p99=vitals.p99,
        bytes=sum(link.bytes for link in vitals.links.values()),
        refused=sum(link.refused for link in vitals.links.values()),
        peers={peer: vitals.links[peer].share if peer in vitals.links else 0.0 for peer in vitals.neighbours},
        peer_states={peer: link.state for peer, link in vitals.links.items()},
    )


def fleet_health(fleet: Mapping[str, EdgeView]) -> list[EdgeHealth]:
    """Return the health of all edges, in order of names."""
    return [edge_health(name, fleet[name], fleet) for name in sorted(fleet)]


def is_healthy(edges: Sequence[EdgeHealth]) -> bool:
    """Whether there are edges and none is unhealthy."""
    return bool(edges) and all(edge.state not in UNHEALTHY for edge in edges)


def _state(view: EdgeView, fleet: Mapping[str, EdgeView]) -> State:
    if not view.alive:
        return "down"
    if not view.same_schema:
        return "other schema"
    vitals = view.vitals
    if not vitals.batches:
        return "waiting"
    up = [peer for peer in vitals.neighbours if peer in fleet and fleet[peer].alive]
    if vitals.neighbours and not up:
        return "alone"
    behind = [vitals.links[peer].behind for peer in up if peer in vitals.links]
    return "stale" if behind and min(behind) > MAX_PUBLICATIONS_BEHIND else "ok"
