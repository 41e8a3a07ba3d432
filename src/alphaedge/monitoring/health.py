"""The health of a fleet, one word per edge: for a table, a script and an exit code. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, final

import msgspec

from alphaedge.monitoring.vitals import EXCLUDED, EdgeView

# Rounds of its own in which an edge got no model of any neighbour, although there were new ones. Publications of its
# neighbours would not do: a region with little traffic has few rounds, and its peers publish many times in between.
STALE_AFTER_ROUNDS: Final = 3
State = Literal["ok", "starting", "waiting", "alone", "stale", "other schema", "down", "budget spent"]
UNHEALTHY: Final = frozenset[State]({"alone", "stale", "other schema", "down"})


@final
class EdgeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one edge.

    state: ``starting`` is not found yet by an edge that has just started; ``waiting`` has not learned a batch yet;
    ``alone`` has neighbours, and none of them is up; ``stale`` got no model of any neighbour in its last rounds;
    ``budget spent`` publishes nothing new any more.
    place: what its data call it. gain: of the score over that of the home model alone, see ``Vitals``.
    bytes, refused: over all links. peers: shares of the neighbours. peer_states: of all peers that it has dealt with,
    in words (``Link.state``).
    """

    edge: str
    region: str
    place: str = ""
    state: State
    score: float | None
    recent: float | None
    gain: float | None
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
        if self.state == "starting":
            return {}
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
        place=vitals.place,
        state=_state(view, fleet),
        score=vitals.score,
        recent=vitals.recent,
        gain=vitals.gain,
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
    if view.starting:
        return "starting"
    if not view.alive:
        return "down"
    if not view.same_schema:
        return "other schema"
    vitals = view.vitals
    if not vitals.batches and not vitals.aggregations:  # an edge with privacy on tells only the latter
        return "waiting"
    up = [peer for peer in vitals.neighbours if peer in fleet and fleet[peer].alive]
    if vitals.neighbours and not up:
        return "alone"
    if vitals.missed_rounds >= STALE_AFTER_ROUNDS:
        return "stale"
    return "budget spent" if vitals.budget_spent else "ok"
