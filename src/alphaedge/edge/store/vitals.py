"""An edge's report about itself, from the status of its learner and of its server."""

from collections.abc import Iterable

from alphaedge.edge.store.peer_status import PeerStatus, peer_state
from alphaedge.edge.store.status import LearnerStatus, ServerStatus
from alphaedge.monitoring.vitals import Link, Vitals, is_plausible_number


def make_vitals(status: LearnerStatus, neighbours: Iterable[str], server: ServerStatus | None) -> Vitals:
    """Put an edge's report about itself together from the status of its learner and of its server."""
    chosen = tuple(sorted(neighbours))
    linked = {name: peer for name, peer in list(status.peers.items()) if name in chosen or _is_link(peer)}
    served = server or ServerStatus()
    return Vitals(
        place=status.place,
        score=_round(status.score) if status.scores else None,
        recent=_round(status.recent),
        gain=_round(status.gain),
        recent_gain=_round(status.recent_gain),
        batches=status.batches,
        aggregations=status.aggregations,
        missed_rounds=status.missed_rounds,
        budget_spent=status.budget_spent,
        requests=served.requests,
        p50=_round(served.p50),
        p99=_round(served.p99),
        pending=served.pending,
        own_share=round(status.own_share, 4),
        home_share=round(status.home_share, 4),
        neighbours=chosen,
        links={name: make_link(linked[name]) for name in sorted(linked)},
    )


def make_link(peer: PeerStatus) -> Link:
    """Describe what this edge takes from a peer."""
    return Link(
        share=round(peer.share, 4),
        pulled=round(peer.pulled, 1),
        behind=max(0, peer.publication - peer.held) if peer.pulls else 0,
        bytes=peer.request_bytes + peer.dense_bytes + peer.row_bytes,
        failures=peer.failures,
        refused=peer.refused,
        state=peer_state(peer),
    )


def _is_link(peer: PeerStatus) -> bool:
    """Whether this edge has dealt with a peer, or refuses to; the latter is known even after a restart."""
    return bool(peer.pulls or peer.failures or peer.excluded)


def _round(value: float | None) -> float | None:
    """Four digits: announcements are sent often and should be short. What may not be announced is left out."""
    return round(value, 4) if value is not None and is_plausible_number(value) else None
