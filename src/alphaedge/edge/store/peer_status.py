"""A peer, as an edge sees it, and its state in words."""

from typing import final

import msgspec

from alphaedge.monitoring.frames import FADED_SHARE
from alphaedge.monitoring.vitals import EXCLUDED


@final
class PeerStatus(msgspec.Struct, kw_only=True):
    """A peer, as this edge sees it."""

    region: str = ""
    alive: bool = False
    mixes: bool = True  # it has the same schema
    neighbour: bool = False
    share: float = 0.0  # of the last mix
    excluded: str = ""  # why it takes no part for some rounds; empty if it does
    publication: int = 0  # number of the newest one known
    held: int = 0  # number of the one that was mixed last
    pulled: float = 0.0  # time of the last pull, in seconds since 1970
    pulls: int = 0
    failures: int = 0
    refused: int = 0  # models
    clock_skew: float = 0.0  # seconds that its clock is ahead of this edge's
    request_bytes: int = 0
    dense_bytes: int = 0
    row_bytes: int = 0


def peer_state(peer: PeerStatus) -> str:
    """Return the state of a peer in words, which the dashboard and ``alphaedge status`` show."""
    if not peer.alive:
        return "down"
    if not peer.mixes:
        return "other schema"
    if peer.excluded:
        return f"{EXCLUDED}{peer.excluded}"
    if not peer.neighbour:
        return "former"
    if not peer.pulls:
        return "waiting"
    return "faded" if peer.share < FADED_SHARE else "mixed"
