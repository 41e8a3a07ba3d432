"""How an edge is doing, in a few numbers that may travel: no ids, no features, nothing of a single user."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from alphaedge.edge.store.status import PeerStatus, Serving, Status
from alphaedge.edge.trust.policy import check_name
from alphaedge.monitoring.frames import Link, Seen, Vitals

MOST_LINKS: Final = 1000  # that an edge may tell of
TELL_EVERY: Final = 2.0  # seconds
TELL_EACH: Final = 0.05  # seconds for each edge that listens


def due(last: float, now: float, edges: int) -> bool:
    """Whether an edge should tell the fleet again how it is doing: in a large one more seldom."""
    return not 0 <= now - last < max(TELL_EVERY, TELL_EACH * edges)


def vitals(status: Status, neighbours: Iterable[str], serving: Serving | None) -> Vitals:
    """An edge's own words, from what its learner and its server know."""
    near = tuple(sorted(neighbours))
    told = {name: peer for name, peer in status.peers.items() if name in near or peer.pulls or peer.failures}
    served = serving or Serving()
    return Vitals(
        score=_rounded(status.score) if status.scores else None,
        recent=_rounded(status.recent),
        batches=status.batches,
        aggregations=status.aggregations,
        requests=served.requests,
        p50=_rounded(served.p50),
        p99=_rounded(served.p99),
        pending=served.pending,
        own_share=round(status.own_share, 4),
        home_share=round(status.home_share, 4),
        neighbours=near,
        links={name: link(told[name]) for name in sorted(told)[:MOST_LINKS]},
    )


def _rounded(value: float | None) -> float | None:
    """As many digits as anybody reads: what is told often should be short."""
    return None if value is None else round(value, 4)


def link(peer: PeerStatus) -> Link:
    """What an edge takes from another."""
    return Link(
        share=round(peer.share, 4),
        pulled=round(peer.pulled, 1),
        behind=max(0, peer.publication - peer.held) if peer.pulls else 0,
        bytes=peer.request_bytes + peer.dense_bytes + peer.row_bytes,
        failures=peer.failures,
        refused=peer.refused,
    )


def plausible(told: Vitals) -> bool:
    """Whether what an edge tells of itself may be shown: few links, and names that are names."""
    if len(told.links) > MOST_LINKS or len(told.neighbours) > MOST_LINKS:
        return False
    try:
        for name in (*told.links, *told.neighbours):
            check_name("peer", name)
    except ValueError:
        return False
    return True


def with_the_dead(before: Mapping[str, Seen], alive: Mapping[str, Seen]) -> dict[str, Seen]:
    """The fleet as it is to be shown: who is there, and who was there, with what it said last."""
    dead = {name: msgspec.structs.replace(seen, alive=False) for name, seen in before.items() if name not in alive}
    return {**dead, **alive}
