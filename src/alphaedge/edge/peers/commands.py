"""What an edge does about its peers: the commands that ``decisions.py`` gives and ``driver.py`` carries out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

from torch import Tensor

from alphaedge.edge.learning.publication import PulledModel

Purpose = Literal["start", "round", "tallies", "rows"]


@final
@dataclass(frozen=True)
class Announce:
    """Announce to the fleet what the edge is and how it is doing."""


@final
@dataclass(frozen=True)
class Pull:
    """Pull from a peer and report ``PullEnded`` with this ticket.

    purpose: a model to start from, a neighbour's model for a round, the tallies of a peer that is heard besides, or the
    rows of new ids.
    """

    ticket: int
    peer: str
    address: str
    purpose: Purpose
    keys: Sequence[Tensor] = ()


@final
@dataclass(frozen=True)
class StartFrom:
    """Start from the models of peers, by peer."""

    models: Mapping[str, PulledModel]


@final
@dataclass(frozen=True)
class StartPulls:
    """Choose first neighbours among the candidates if there are none, and report ``PullsStarted``."""

    candidates: Sequence[str]


@final
@dataclass(frozen=True)
class StartRound:
    """Publish, choose first neighbours among the candidates if there are none, and report ``RoundStarted``."""

    candidates: Sequence[str]


@final
@dataclass(frozen=True)
class FinishRound:
    """Mix in these models, choose neighbours, and report ``RoundFinished``.

    absent: neighbours that have published something that did not come. tallies: those of others.
    """

    models: Mapping[str, PulledModel]
    absent: Sequence[str]
    candidates: Sequence[str]
    topology: Mapping[str, Mapping[str, float]]
    tallies: Mapping[str, PulledModel] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class DropPeers:
    """Drop neighbours and others that the policy forbids."""

    peers: Sequence[str]


@final
@dataclass(frozen=True)
class FindNewIds:
    """Look for ids without a row, and report ``NewIdsFound``."""


@final
@dataclass(frozen=True)
class AdoptRows:
    """Start the rows of new ids from what peers know about them."""

    models: Mapping[str, PulledModel]


@final
@dataclass(frozen=True)
class Log:
    """Write a log event."""

    event: str
    fields: Mapping[str, Any]


Command = Announce | Pull | StartFrom | StartPulls | StartRound | FinishRound | DropPeers | FindNewIds | AdoptRows | Log
