"""The scenario of a demonstration: an edge turns hostile, one goes down and comes back, and a link is cut. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alphaedge.replay.edge_replay import AlterLabels

HOSTILE_AT, KILL_AT, RESTART_AT, CUT_AT = 0.35, 0.5, 0.6, 0.75  # shares of the run
MIN_EDGES: Final = 4
IncidentKind = Literal["hostile", "kill", "restart", "cut"]
_SENTENCES: Final[Mapping[IncidentKind, str]] = {
    "hostile": "{edge} turns hostile: from now on it learns from flipped labels",
    "kill": "{edge} is killed (kill -9)",
    "restart": "{edge} is started again",
    "cut": "a policy cuts the link between {edge} and {peer}",
}


@final
@dataclass(frozen=True)
class Incident:
    """Something that is done to an edge. at: when, as a share of the run. peer: the other end of a link."""

    at: float
    kind: IncidentKind
    edge: str
    peer: str = ""

    def describe(self) -> str:
        """Return the incident as a sentence."""
        return _SENTENCES[self.kind].format(edge=self.edge, peer=self.peer)


def make_scenario(names: Sequence[str], clusters: Mapping[str, int]) -> list[Incident]:
    """Return the incidents in order of time; none for a fleet that is too small.

    clusters: the cluster of each edge, where it is known. The hostile edge has a peer of its own cluster that listens
    to it, the killed edge is of another cluster if there is one, and the link that is cut joins two edges of a cluster.
    """
    if len(names) < MIN_EDGES:
        return []
    members: dict[int, list[str]] = {}
    for name in names:
        members.setdefault(clusters.get(name, 0), []).append(name)
    order = [name for cluster in sorted(members.values(), key=len, reverse=True) for name in cluster]
    friend, hostile, other = order[0], order[1], order[2]
    killed = order[-1]
    return [
        Incident(HOSTILE_AT, "hostile", hostile),
        Incident(KILL_AT, "kill", killed),
        Incident(RESTART_AT, "restart", killed),
        Incident(CUT_AT, "cut", friend, other),
    ]


def hostile_labels(
    incidents: Sequence[Incident], counts: Mapping[str, int], flip: Callable[[Tensor], Tensor]
) -> AlterLabels:
    """Return a function that flips the labels of a hostile edge from its incident on.

    counts: events of each edge in the whole run. flip: see ``Dataset``.
    """
    hostile_at = {incident.edge: incident.at for incident in incidents if incident.kind == "hostile"}

    def alter(edge: str, first: int, labels: NDArray[np.float32]) -> NDArray[np.float32]:
        if edge in hostile_at and first >= hostile_at[edge] * counts[edge]:
            return flip(torch.from_numpy(labels)).numpy().astype(np.float32)
        return labels

    return alter
