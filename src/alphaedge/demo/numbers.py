"""The numbers of a demonstration: scores beside those of edges that learn alone, and what became of the hostile one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

import msgspec

from alphaedge.core.model import Model
from alphaedge.data.stream import Dataset, Stream
from alphaedge.demo.run import Played
from alphaedge.demo.story import Scene
from alphaedge.edge.config import ModelConfig
from alphaedge.monitoring.frames import FADED, Frame, latest
from alphaedge.simulation.simulate import simulate

ALONE: Final = "noagg"


@final
class EdgeNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One edge. score, alone: means over its batches, of the live edge and of one that learns from the same events
    without peers. aggregations, bytes: as it told itself at the end. p50, p99: of predictions, as clients saw it, in
    milliseconds. dark: seconds for which it was killed."""

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
    dark: float = 0.0


@final
class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """How an edge took it that a peer turned hostile. share: before. aggregations: until the share was below 0.02 for
    the first time; None if it never was."""

    edge: str
    hostile: str
    share: float
    aggregations: int | None


@final
class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. failures, undelivered: predictions that were never answered, outcomes that were never told."""

    metric: str
    seconds: float
    events: int
    failures: int
    undelivered: int
    score: float | None
    alone: float | None
    edges: tuple[EdgeNumbers, ...]
    reactions: tuple[Reaction, ...]


def numbers(played: Played, regions: Mapping[str, str], alone: Mapping[str, float | None]) -> Numbers:
    """The numbers. alone: the scores of edges without peers. Means are over honest edges."""
    hostile = {scene.edge for _, scene in played.scenes if scene.kind == "hostile"}
    state = latest(played.frames)
    found = []
    for one in played.outcome.edges:
        vitals = state[one.edge].vitals if one.edge in state else None
        found.append(
            EdgeNumbers(
                edge=one.edge,
                region=regions[one.edge],
                hostile=one.edge in hostile,
                score=one.score,
                alone=alone.get(one.edge),
                batches=vitals.batches if vitals else 0,
                aggregations=vitals.aggregations if vitals else 0,
                bytes=sum(link.bytes for link in vitals.links.values()) if vitals else 0,
                p50=one.latency.p50,
                p99=one.latency.p99,
                dark=dark(played.scenes, one.edge),
            )
        )
    both = [(e.score, e.alone) for e in found if not e.hostile and e.score is not None and e.alone is not None]
    return Numbers(
        metric=played.outcome.metric,
        seconds=played.outcome.seconds,
        events=played.outcome.total.events,
        failures=played.outcome.total.failures,
        undelivered=played.outcome.total.feedback.undelivered,
        score=sum(s for s, _ in both) / len(both) if both else None,
        alone=sum(a for _, a in both) / len(both) if both else None,
        edges=tuple(found),
        reactions=tuple(reactions(played.frames, [(at, s.edge) for at, s in played.scenes if s.kind == "hostile"])),
    )


def dark(scenes: Sequence[tuple[float, Scene]], edge: str) -> float:
    """Seconds from a kill of an edge to its next start, all in all."""
    times: dict[str, list[float]] = {"kill": [], "restart": []}
    for at, scene in scenes:
        if scene.edge == edge and scene.kind in times:
            times[scene.kind].append(at)
    return sum(back - gone for gone, back in zip(times["kill"], times["restart"], strict=False))


def reactions(frames: Sequence[Frame], turned: Sequence[tuple[float, str]]) -> list[Reaction]:
    """How those who listened to an edge took it that it turned hostile, at a moment."""
    found = []
    for at, hostile in turned:
        before: dict[str, float] = {}  # who listened, and how much
        since: dict[str, int] = {}  # aggregations at that moment
        heard: dict[str, int | None] = {}
        for frame in frames:
            for name, seen in frame.edges.items():
                link = seen.vitals.links.get(hostile)
                share = link.share if link is not None and hostile in seen.vitals.neighbours else 0.0
                if frame.time <= at:
                    before[name], since[name] = share, seen.vitals.aggregations
                elif share < FADED and before.get(name, 0.0) >= FADED and name not in heard:
                    heard[name] = max(0, seen.vitals.aggregations - since[name])
        for name, share in sorted(before.items()):
            if share >= FADED:
                reaction = Reaction(edge=name, hostile=hostile, share=share, aggregations=heard.get(name))
                found.append(reaction)
    return found


def learned_alone(
    data: Dataset, streams: Mapping[str, Stream], model: Mapping[str, Any], *, batch_size: int
) -> dict[str, float | None]:
    """Scores of edges that learn from the same events, with the same model, without peers: simulated."""
    config = msgspec.convert(model, ModelConfig)
    alone = replace(data, streams=tuple(streams.values()))
    found = simulate(
        data=alone,
        model=partial(_made, config),
        methods=[ALONE],
        batch_size=batch_size,
        rate=config.rate,
        id_rows=config.id_rows,
        id_rate=config.id_rate,
    )
    scores = found.summary()["methods"][ALONE]["per_edge"]
    return dict(zip(streams, scores, strict=True))


def _made(config: ModelConfig) -> Model:
    return config.make()
