"""The result of one run: one method under one seed, as tidy tables and means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch

from alphaedge import scoring
from alphaedge.data.stream import Dataset
from alphaedge.fleet_state import EncodedState
from alphaedge.simulation.baselines import Baseline, score_baselines
from alphaedge.simulation.run_log import OTHERS
from alphaedge.simulation.world import World


@final
@dataclass(frozen=True)
class RunResult:
    """One method under one seed."""

    method: str
    seed: int
    scores: pl.DataFrame  # method, seed, edge, batch, time, score
    weights: pl.DataFrame  # method, seed, edge, aggregation, time, peer, share
    pulls: pl.DataFrame  # method, seed, edge, peer, count, bytes
    per_edge: list[float | None]
    pooled: list[float | None]
    losses: list[float | None]
    first_sight: list[float | None]  # like pooled, over the events that name an id which the edge has not met before
    honest: list[bool]
    stopped: int  # edges whose loss was no longer finite
    bytes: tuple[int, int, int]
    beyond_start: int
    edge_batches: int
    seconds: float
    baselines: Mapping[str, Baseline]  # by name; empty unless they were asked for
    end_state: EncodedState | None = None  # in which the fleet ended (alphaedge.fleet_state), if it was kept

    @classmethod
    def of(
        cls, name: str, world: World, run: int, data: Dataset, seconds: float, *, baselines: bool = False
    ) -> "RunResult":
        """Cut one run out of a world that has run to its end: of the edges that it holds."""
        record, batches, timeline, seed = world.log, world.batches, world.timelines[run], world.seeds[run]
        n = world.n
        here = {number % n: edge for edge, number in enumerate(world.own) if number // n == run}
        edges = list(here.values())
        hostile = world.conditions.draw_adversaries(n, seed)
        frames, per_edge, pooled, losses, first_sight, done_batches = [], [], [], [], [], 0
        present: dict[int, torch.Tensor] = {}  # by edge, the labels of the batches in which it takes part
        for local, edge in here.items():
            count = batches.count[edge]
            place = slice(int(batches.at_label[edge]), int(batches.at_label[edge]) + count)
            done = record.done[place]
            number = done.nonzero().flatten()
            score = record.scores[place][done]
            frames.append(
                pl.DataFrame(
                    {
                        "method": [name] * len(number),
                        "seed": [seed] * len(number),
                        "edge": [local] * len(number),
                        "batch": number.numpy(),
                        "time": timeline.moments[local][done].numpy(),
                        "score": score.numpy(),
                    },
                    schema=SCORES,
                ).with_columns(pl.col("score").fill_nan(None))
            )
            predictions, labels = record.predictions[place][done], batches.scored[place][done]
            per_edge.append(scoring.as_number(score.nanmean()))
            pooled.append(scoring.score_at_once(data.metric, predictions, labels))
            losses.append(scoring.mean_loss(data.task, predictions, labels))
            new = names_new_id(data, local, timeline.first[local], count, batches.size)[done]
            first_sight.append(scoring.score_at_once(data.metric, predictions[new], labels[new]))
            done_batches += len(number)
            present[local] = batches.scored[place][timeline.first[local] : timeline.last[local]]
        return cls(
            method=name,
            seed=seed,
            scores=pl.concat(frames),
            weights=pl.DataFrame(
                [
                    (name, seed, e, mix.aggregation, mix.moment, peer, share)
                    for e, edge in here.items()
                    for mix in record.mixes[edge]
                    for peer, share in [(e, mix.own), *mix.peers.items()]
                ],
                schema=WEIGHTS,
                orient="row",
            ),
            pulls=pl.DataFrame(
                [
                    (name, seed, e, peer if peer != OTHERS else None, link.count, link.bytes)
                    for e, edge in here.items()
                    for peer, link in record.pulls[edge].items()
                ],
                schema=PULLS,
                orient="row",
            ),
            per_edge=per_edge,
            pooled=pooled,
            losses=losses,
            first_sight=first_sight,
            honest=[local not in hostile for local in here],
            stopped=sum(world.own[edge] in record.stopped for edge in edges),
            bytes=_three(record.bytes[edges].sum(0).tolist()),
            beyond_start=sum(record.beyond_start[edge] for edge in edges),
            edge_batches=done_batches,
            seconds=seconds,
            baselines=score_baselines(data, present, timeline.first, world.conditions.delay) if baselines else {},
        )

    @classmethod
    def joined(cls, parts: Sequence["RunResult"]) -> "RunResult":
        """One run out of those of its shards, in the order of their edges."""
        return cls(
            method=parts[0].method,
            seed=parts[0].seed,
            scores=pl.concat([part.scores for part in parts]),
            weights=pl.concat([part.weights for part in parts]),
            pulls=pl.concat([part.pulls for part in parts]),
            per_edge=[value for part in parts for value in part.per_edge],
            pooled=[value for part in parts for value in part.pooled],
            losses=[value for part in parts for value in part.losses],
            first_sight=[value for part in parts for value in part.first_sight],
            honest=[value for part in parts for value in part.honest],
            stopped=sum(part.stopped for part in parts),
            bytes=_three([sum(part.bytes[i] for part in parts) for i in range(3)]),
            beyond_start=sum(part.beyond_start for part in parts),
            edge_batches=sum(part.edge_batches for part in parts),
            seconds=max(part.seconds for part in parts),
            baselines={b: Baseline.joined([part.baselines[b] for part in parts]) for b in parts[0].baselines},
        )

    def mean(self, values: list[float | None]) -> float | None:
        """Mean over the honest edges."""
        return scoring.mean([v for v, honest in zip(values, self.honest, strict=True) if honest and v is not None])

    def hostile_share(self) -> float | None:
        """The hostile edges' part of an honest edge's mix, averaged over all mixes; None if there are none."""
        hostile = [edge for edge, honest in enumerate(self.honest) if not honest]
        mixed = self.weights.filter(~pl.col("edge").is_in(hostile))
        if not hostile or mixed.is_empty():
            return None
        taken = mixed.filter(pl.col("peer").is_in(hostile))["share"].sum()
        return float(taken / len(mixed.select("edge", "aggregation").unique()))


SCORES = {
    "method": pl.String,
    "seed": pl.Int64,
    "edge": pl.Int64,
    "batch": pl.Int64,
    "time": pl.Float64,
    "score": pl.Float64,
}


WEIGHTS = {
    "method": pl.String,
    "seed": pl.Int64,
    "edge": pl.Int64,
    "aggregation": pl.Int64,
    "time": pl.Float64,
    "peer": pl.Int64,
    "share": pl.Float64,
}


PULLS = {
    "method": pl.String,
    "seed": pl.Int64,
    "edge": pl.Int64,
    "peer": pl.Int64,  # null: all others together, whose tallies alone were pulled
    "count": pl.Int64,
    "bytes": pl.Int64,
}


def names_new_id(data: Dataset, edge: int, start: int, batches: int, size: int) -> torch.Tensor:
    """Which events [batches, size] of an edge name an id that it has not met in a batch before, from ``start`` on."""
    found = np.zeros((batches, size), dtype=bool)
    here = found[start:]
    for field in data.fields:
        if field.kind == "id" and len(here):
            ids = data.streams[edge].inputs[field.name][start * size : batches * size].numpy()
            _, first, of = np.unique(ids, return_index=True, return_inverse=True)
            here |= (first // size)[of].reshape(here.shape) == np.arange(len(here))[:, None]
    return torch.from_numpy(found)


def _three(values: list[int]) -> tuple[int, int, int]:
    full, common, changed = values
    return full, common, changed
