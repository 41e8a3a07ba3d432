"""What the learner and the server of one edge tell each other about how they are doing: two small JSON files."""

from pathlib import Path
from typing import TypeVar, final

import msgspec

from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.files import replace_file
from alphaedge.monitoring.vitals import EdgeView

S = TypeVar("S")


@final
class LearnerStatus(msgspec.Struct, kw_only=True):
    """The learner's numbers. Times are in seconds since 1970."""

    edge: str
    region: str
    place: str = ""
    schema: str
    started: float
    written: float = 0.0
    batches: int = 0
    records: int = 0
    aggregations: int = 0
    feedback: int = 0  # number of the last feedback that was learned
    scores: int = 0  # batches with a score
    score: float = 0.0  # mean over them, each scored before it was learned from
    recent: float | None = None  # mean over the last batches
    gain: float | None = None  # mean of what the score is above that of the home model alone on the same batches
    recent_gain: float | None = None  # the same, over the last batches
    own_share: float = 1.0
    home_share: float = 0.0
    batches_undone: int = 0
    rollbacks: int = 0  # to an earlier state
    resets: int = 0  # of the mixed model to the home model, since the learner started
    hand_overs: int = 0
    hand_over_seconds: float = 0.0  # all of them together
    timed_aggregations: int = 0  # since the learner started
    aggregation_seconds: float = 0.0  # all of them together
    missed_rounds: int = 0  # the last ones in a row in which neighbours had new models and none of them came
    adopted_rows: int = 0
    privacy_windows: int = 0  # in which there was a private step
    privacy_epsilon: float | None = None  # what they come to for a user who took part in each; None without privacy
    budget_spent: bool = False  # whether nothing new is published any more
    announcements_refused: int = 0
    limit_hits: dict[str, dict[str, int]] = {}  # by member and limit, since the learner started
    incarnation: int = 0  # grows with every start
    announcement_version: int = 0  # of the last one
    certificate_days: float | None = None  # until this edge's certificate expires
    revocations: int = 0  # number of the revocation list in force
    clock_skew: float = 0.0  # seconds that this edge's clock is ahead of the fleet's
    peers: dict[str, PeerStatus] = {}
    fleet: dict[str, EdgeView] = {}  # as this edge sees it, itself included


@final
class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The server's numbers. requests: answered predictions. p50, p99: latency of the last ones in milliseconds.

    pending: predictions without a label.
    """

    requests: int = 0
    p50: float | None = None
    p99: float | None = None
    pending: int = 0


def write_status(status: LearnerStatus | ServerStatus, path: Path) -> None:
    """Replace a status file."""
    replace_file(path, msgspec.json.encode(status))


def read_learner_status(path: Path) -> LearnerStatus | None:
    """Read the learner's last status; None if there is none, or none that can be read."""
    return _read(path, LearnerStatus)


def read_server_status(path: Path) -> ServerStatus | None:
    """Read the server's last status; None if there is none, or none that can be read."""
    return _read(path, ServerStatus)


def _read(path: Path, kind: type[S]) -> S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
