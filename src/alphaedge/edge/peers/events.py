"""What happens to an edge among its peers: the events that ``decisions.py`` decides about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from alphaedge.edge.learning.publication import PulledModel
from alphaedge.edge.trust.announcements import Announcement
from alphaedge.edge.trust.policy import Policy


@final
@dataclass(frozen=True)
class Started:
    """The edge runs. wants_model: it has learned nothing yet, and there is a directory to find a peer in."""

    wants_model: bool


@final
@dataclass(frozen=True)
class Observed:
    """What the edge sees now.

    fleet: announcements of the edges that are alive. resting: peers that are left alone after failures.
    neighbours, others: those of the edge. has_feedback: there is about a batch of feedback that nothing was learned
    from yet.
    """

    fleet: Mapping[str, Announcement]
    policy: Policy
    neighbours: Sequence[str]
    others: Sequence[str] = ()
    resting: frozenset[str] = frozenset()
    has_feedback: bool = False


@final
@dataclass(frozen=True)
class PullsDue:
    """The models for the next round are to be pulled."""


@final
@dataclass(frozen=True)
class PullsStarted:
    """The learner has these neighbours to pull from, and hears these others."""

    neighbours: Sequence[str]
    others: Sequence[str] = ()


@final
@dataclass(frozen=True)
class RoundDue:
    """The learner has learned enough batches for an aggregation."""


@final
@dataclass(frozen=True)
class RoundStarted:
    """The learner has published, has these neighbours, and hears these others."""

    neighbours: Sequence[str]
    others: Sequence[str] = ()


@final
@dataclass(frozen=True)
class RoundFinished:
    """The learner has mixed, and has chosen its neighbours and the others that it hears."""

    neighbours: Sequence[str]
    others: Sequence[str] = ()


@final
@dataclass(frozen=True)
class PullEnded:
    """A pull is over; ``model`` is None if it failed or was refused."""

    ticket: int
    model: PulledModel | None


@final
@dataclass(frozen=True)
class NewIdsFound:
    """Keys per id table that predictions were asked for and that have no row; none if there are none."""

    keys: Sequence[Tensor]


@final
@dataclass(frozen=True)
class Stopped:
    """The edge is to stop."""


Event = (
    Started
    | Observed
    | PullsDue
    | PullsStarted
    | RoundDue
    | RoundStarted
    | RoundFinished
    | PullEnded
    | NewIdsFound
    | Stopped
)
