"""The summary of a demonstration: scores beside those of edges without peers, and how the fleet took the incidents."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

import msgspec

from alphaedge.core.model import Model
from alphaedge.data.stream import Dataset, Stream
from alphaedge.demo.reactions import Reaction, find_reactions
from alphaedge.demo.run import DemoResult
from alphaedge.demo.scenario import Incident
from alphaedge.edge.config import ModelConfig
from alphaedge.monitoring.frames import latest_state
from alphaedge.simulation.simulate import simulate

NO_PEERS: Final = "noagg"  # the method of edges that learn alone


@final
class EdgeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one edge.

    score, alone: means over batches, of the live edge and of one that learns from the same events without peers.
    batches, aggregations, bytes: as the edge reported at the end; bytes are pulled. p50, p99: latency of predictions in
    milliseconds, as clients measured it. down_seconds: for how long it was killed.
    """

    edge: str
    region: str
    hostile: bool
    score: float | None
    alone: float | None
    batches: int
    aggregations: int
    bytes: int
    p50: float | None
    p99: float | None
    down_seconds: float = 0.0


@final
class DemoSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a demonstration.

    failures: predictions that were never answered. undelivered: labels that were never delivered. score, alone: means
    over honest edges, see ``EdgeSummary``. reactions: to edges that turned hostile.
    """

    metric: str
    seconds: float
    events: int
    failures: int
    undelivered: int
    score: float | None
    alone: float | None
    edges: tuple[EdgeSummary, ...]
    reactions: tuple[Reaction, ...]


def summarize(result: DemoResult, regions: Mapping[str, str], alone: Mapping[str, float | None]) -> DemoSummary:
    """Summarize a demonstration. alone: the scores of edges without peers."""
    replay = result.replay
    hostile = {incident.edge for _, incident in result.incidents if incident.kind == "hostile"}
    state = latest_state(result.frames)
    edges = []
    for edge in replay.edges:
        vitals = state[edge.edge].vitals if edge.edge in state else None
        edges.append(
            EdgeSummary(
                edge=edge.edge,
                region=regions[edge.edge],
                hostile=edge.edge in hostile,
                score=edge.score,
                alone=alone.get(edge.edge),
                batches=vitals.batches if vitals else 0,
                aggregations=vitals.aggregations if vitals else 0,
                bytes=sum(link.bytes for link in vitals.links.values()) if vitals else 0,
                p50=edge.latency.p50,
                p99=edge.latency.p99,
                down_seconds=down_seconds(result.incidents, edge.edge),
            )
        )
    pairs = [(e.score, e.alone) for e in edges if not e.hostile and e.score is not None and e.alone is not None]
    turned = [(at, incident.edge) for at, incident in result.incidents if incident.kind == "hostile"]
    return DemoSummary(
        metric=replay.metric,
        seconds=replay.seconds,
        events=replay.total.events,
        failures=replay.total.failures,
        undelivered=replay.total.feedback.undelivered,
        score=sum(score for score, _ in pairs) / len(pairs) if pairs else None,
        alone=sum(score for _, score in pairs) / len(pairs) if pairs else None,
        edges=tuple(edges),
        reactions=tuple(find_reactions(result.frames, turned)),
    )


def down_seconds(incidents: Sequence[tuple[float, Incident]], edge: str) -> float:
    """Return the seconds from each kill of an edge to its next start, summed."""
    times: dict[str, list[float]] = {"kill": [], "restart": []}
    for at, incident in incidents:
        if incident.edge == edge and incident.kind in times:
            times[incident.kind].append(at)
    return sum(restarted - killed for killed, restarted in zip(times["kill"], times["restart"], strict=False))


def score_without_peers(
    data: Dataset, streams: Mapping[str, Stream], model: Mapping[str, Any], *, batch_size: int
) -> dict[str, float | None]:
    """Simulate edges that learn from the same events, with the same model and without peers; return their scores."""
    config = msgspec.convert(model, ModelConfig)
    result = simulate(
        data=replace(data, streams=tuple(streams.values())),
        model=partial(_make_model, config),
        methods=[NO_PEERS],
        batch_size=batch_size,
        rate=config.rate,
        id_rows=config.id_rows,
        id_rate=config.id_rate,
    )
    scores = result.summary()["methods"][NO_PEERS]["per_edge"]
    return dict(zip(streams, scores, strict=True))


def _make_model(config: ModelConfig) -> Model:
    return config.make()
