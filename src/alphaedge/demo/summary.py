"""The summary of a demonstration: scores beside those of the live twins, and how the fleet took the incidents."""

from collections.abc import Mapping, Sequence
from typing import final

import msgspec

from alphaedge.demo.reactions import Reaction, find_reactions
from alphaedge.demo.run import DemoResult
from alphaedge.demo.scenario import Incident
from alphaedge.demo.story import tell
from alphaedge.monitoring.frames import FleetEvent, latest_state
from alphaedge.monitoring.vitals import Vitals
from alphaedge.scoring import mean


@final
class EdgeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one edge, as it reported itself at the end.

    score, alone: means over batches, of what it predicted and of its home model alone, its live twin: the same events,
    the same delays, no peers. gain: the difference. bytes: pulled. p50, p99: latency of predictions in milliseconds, as
    clients measured it. down_seconds: from its kill until it answered.
    """

    edge: str
    region: str
    hostile: bool
    score: float | None
    alone: float | None
    gain: float | None
    batches: int
    aggregations: int
    bytes: int
    p50: float | None
    p99: float | None
    down_seconds: float = 0.0


@final
class DemoSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a demonstration.

    failures: predictions that were never answered. undelivered: labels that were never delivered. score, alone, gain:
    means over honest edges, see ``EdgeSummary``. reactions: to edges that turned hostile. changes: of peers, which the
    story does not tell one by one.
    """

    metric: str
    seconds: float
    events: int
    failures: int
    undelivered: int
    score: float | None
    alone: float | None
    gain: float | None
    edges: tuple[EdgeSummary, ...]
    reactions: tuple[Reaction, ...]
    changes: int


def summarize(result: DemoResult, regions: Mapping[str, str]) -> DemoSummary:
    """Summarize a demonstration."""
    replay = result.replay
    turned = [(at, incident.edge) for at, incident in result.incidents if incident.kind == "hostile"]
    hostile = {edge for _, edge in turned}
    state = latest_state(result.frames)
    events = [event for frame in result.frames for event in frame.events]
    edges = []
    for edge in replay.edges:
        vitals = state[edge.edge].vitals if edge.edge in state else Vitals()
        edges.append(
            EdgeSummary(
                edge=edge.edge,
                region=regions[edge.edge],
                hostile=edge.edge in hostile,
                score=vitals.score,
                alone=None if vitals.score is None or vitals.gain is None else round(vitals.score - vitals.gain, 4),
                gain=vitals.gain,
                batches=vitals.batches,
                aggregations=vitals.aggregations,
                bytes=sum(link.bytes for link in vitals.links.values()),
                p50=edge.latency.p50,
                p99=edge.latency.p99,
                down_seconds=down_seconds(result.incidents, events, edge.edge),
            )
        )
    honest = [edge for edge in edges if not edge.hostile and edge.gain is not None]
    return DemoSummary(
        metric=replay.metric,
        seconds=replay.seconds,
        events=replay.total.events,
        failures=replay.total.failures,
        undelivered=replay.total.feedback.undelivered,
        score=mean([edge.score for edge in honest]),
        alone=mean([edge.alone for edge in honest]),
        gain=mean([edge.gain for edge in honest]),
        edges=tuple(edges),
        reactions=tuple(find_reactions(result.frames, turned)),
        changes=tell(result.incidents, events).changes,
    )


def down_seconds(incidents: Sequence[tuple[float, Incident]], events: Sequence[FleetEvent], edge: str) -> float:
    """Return the seconds from each kill of an edge until it answered again, summed.

    If nobody noticed that it was down, it counts as back when it was started again.
    """
    times: dict[str, list[float]] = {"kill": [], "restart": []}
    for at, incident in incidents:
        if incident.edge == edge and incident.kind in times:
            times[incident.kind].append(at)
    answers = [event.time for event in events if (event.edge, event.kind) == (edge, "up")]
    backs = [min((at for at in answers if at >= started), default=started) for started in times["restart"]]
    return sum(back - killed for killed, back in zip(times["kill"], backs, strict=False))
