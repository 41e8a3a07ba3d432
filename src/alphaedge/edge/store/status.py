"""How a learner is doing, for whoever asks the server beside it: a small file that is written anew now and then."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar, final

import msgspec

from alphaedge.files import replace_file
from alphaedge.monitoring.vitals import MAX_LINKS, EdgeView, Link, Vitals

S = TypeVar("S")


@final
class PeerStatus(msgspec.Struct, kw_only=True):
    """Another edge, as this one sees it."""

    region: str = ""
    alive: bool = False
    mixes: bool = True  # it has the same schema
    neighbour: bool = False
    share: float = 0.0  # of the last mix
    publication: int = 0  # the newest that is heard of
    held: int = 0  # the one that was mixed in last
    pulled: float = 0.0  # when that was, in seconds since 1970
    pulls: int = 0
    failures: int = 0
    refused: int = 0  # models that were not believed
    request_bytes: int = 0
    dense_bytes: int = 0
    row_bytes: int = 0


@final
class LearnerStatus(msgspec.Struct, kw_only=True):
    """A learner's numbers; times in seconds since 1970."""

    edge: str
    region: str
    schema: str
    started: float
    written: float = 0.0
    batches: int = 0
    records: int = 0
    aggregations: int = 0
    lesson: int = 0  # number of the last feedback that was learned
    scores: int = 0  # batches that have a score
    score: float = 0.0  # their mean, of what was predicted before anything was learned from it
    recent: float | None = None  # the mean of the last ones
    own_share: float = 1.0
    home_share: float = 0.0  # how much the model that never mixes has to say
    handed_over: int = 0
    hand_over_seconds: float = 0.0
    aggregations_timed: int = 0  # since the learner started
    aggregation_seconds: float = 0.0  # of these
    adopted: int = 0  # rows taken from peers at first sight
    records_refused: int = 0
    version: int = 0  # of the record that was last told the other edges
    peers: dict[str, PeerStatus] = {}
    fleet: dict[str, EdgeView] = {}  # as this edge sees it, itself included


@final
class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A server's numbers, for the learner beside it: answered requests, latency of the last ones in milliseconds."""

    requests: int = 0
    p50: float | None = None
    p99: float | None = None
    pending: int = 0


def write(status: LearnerStatus | ServerStatus, path: Path) -> None:
    """Replace the file; nobody ever sees half of it."""
    replace_file(path, msgspec.json.encode(status))


def read(path: Path) -> LearnerStatus | None:
    """The learner's last status, if there is one."""
    return _read(path, LearnerStatus)


def read_serving(path: Path) -> ServerStatus | None:
    """The server's last numbers, if there are any."""
    return _read(path, ServerStatus)


def _read(path: Path, kind: type[S]) -> S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def vitals(status: LearnerStatus, neighbours: Iterable[str], serving: ServerStatus | None) -> Vitals:
    """An edge's own words, from what its learner and its server know."""
    near = tuple(sorted(neighbours))
    told = {name: peer for name, peer in status.peers.items() if name in near or peer.pulls or peer.failures}
    served = serving or ServerStatus()
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
        links={name: link(told[name]) for name in sorted(told)[:MAX_LINKS]},
    )


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


def _rounded(value: float | None) -> float | None:
    """As many digits as anybody reads: what is told often should be short."""
    return None if value is None else round(value, 4)
