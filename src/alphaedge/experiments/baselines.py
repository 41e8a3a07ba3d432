"""What any method must beat, and what no method without everybody's data can expect to.

persistence   the last value measured: the first number of a data set whose labels are its next values
prior         what has been usual so far at the edge: the running mean of its labels; to classify, that of the item
pooled        one model that sees all edges' data in the order of time, as a central server would train it

Each predicts a batch before it learns from it, and is scored batch by batch like every method.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from alphaedge.data.stream import Dataset, Stream
from alphaedge.experiments.cell import CellResult, curve
from alphaedge.metrics import SCORES, mean
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.results import RunResult

CAUTION: Final = 10.0  # events that an item's own rate must have before it counts as much as the edge's


def labels_of(data: Dataset, edge: int, seed: int) -> Tensor:
    """An edge's labels with the noise that belongs to the data set."""
    labels, share = data.streams[edge].labels, data.noise.get(edge, 0.0)
    if not share:
        return labels
    flips = torch.from_numpy(Conditions().draw_noise(edge, len(labels), share, seed))
    low, high = (0.0, 1.0) if data.task == "classify" else data.label_range()
    return torch.where(flips, low + high - labels, labels)


def simple(name: str, data: Dataset, size: int, runs: int) -> CellResult:
    """What ``prior`` or ``persistence`` scores; runs differ where noise belongs to the data."""
    scores = [[batch_scores(name, data, edge, size, seed) for edge in range(len(data.streams))] for seed in range(runs)]
    return _found(scores, data.edge_names)


def _found(
    scores: list[list[list[float | None]]], names: list[str], seconds: float = 0.0, notes: Sequence[str] = ()
) -> CellResult:
    """From the scores of every batch of every edge in every run."""
    per_edge = [[mean([s for s in edge if s is not None]) for edge in run] for run in scores]
    return CellResult(
        per_seed=[mean([e for e in run if e is not None]) for run in per_edge],
        per_edge=per_edge,
        curves=[curve([run[edge] for run in scores]) for edge in range(len(names))],
        names=names,
        seconds=seconds,
        notes=list(notes),
    )


def batch_scores(name: str, data: Dataset, edge: int, size: int, seed: int) -> list[float | None]:
    """The score of each batch of an edge; None where there is none."""
    stream = data.streams[edge]
    count = len(stream) // size
    labels = labels_of(data, edge, seed)[: count * size]
    predictions = _last(data, stream) if name == "persistence" else _usual(data, stream, labels, size)
    found = SCORES[data.metric](predictions[: count * size].view(count, size), labels.view(count, size))
    return [None if s != s else s for s in found.tolist()]


def _last(data: Dataset, stream: Stream) -> Tensor:
    name = next(f.name for f in data.fields if f.kind == "number")
    return stream.inputs[name][:, 0]


def _usual(data: Dataset, stream: Stream, labels: Tensor, size: int) -> Tensor:
    """The mean label of all batches before; to classify, of the item (the last id field), drawn to the edge's."""
    before = torch.arange(len(labels)) // size * size
    sums = torch.cat([torch.zeros(1), labels.double().cumsum(0)])
    usual = torch.where(before > 0, sums[before] / before.clamp(min=1), 0.0)
    items = [f for f in data.fields if f.kind == "id"]
    if data.task != "classify" or not items:
        return usual.float()
    item = stream.inputs[items[-1].name][: len(labels)]
    bought, seen = torch.zeros(items[-1].size), torch.zeros(items[-1].size)
    predictions = []
    for start in range(0, len(labels), size):
        now = item[start : start + size]
        predictions.append((bought[now] + CAUTION * usual[start]) / (seen[now] + CAUTION))
        bought.index_add_(0, now, labels[start : start + size])
        seen.index_add_(0, now, torch.ones(len(now)))
    return torch.cat(predictions).float()


def pooled(data: Dataset, size: int, seed: int) -> tuple[Dataset, list[int]]:
    """All edges' batches as the stream of one edge, in the order of their last events; and whose batch each is.

    The noise that belongs to the data set is that of the seed.
    """
    counts = [len(s) // size for s in data.streams]
    owner = torch.cat([torch.full((c,), e) for e, c in enumerate(counts)])
    times = torch.cat([s.times[size - 1 : c * size : size] for s, c in zip(data.streams, counts, strict=True)])
    order = times.argsort(stable=True)

    def joined(parts: list[Tensor]) -> Tensor:
        cut = torch.cat([p[: c * size] for p, c in zip(parts, counts, strict=True)])
        return cut.view(len(owner), size, *cut.shape[1:])[order].flatten(0, 1)

    inputs = {f.name: joined([s.inputs[f.name] for s in data.streams]) for f in data.fields}
    labels = joined([labels_of(data, e, seed) for e in range(len(counts))])
    stream = Stream(inputs, labels, times[order].repeat_interleave(size))
    whole = replace(data, streams=(stream,), noise={}, names=None, clusters=None)
    return whole, owner[order].tolist()


def shared_out(runs: list[RunResult], notes: list[str], names: list[str], owner: list[int]) -> CellResult:
    """What the pooled model scores, each batch counted for the edge that it came from."""
    scores = []
    for outcome in runs:
        parts: list[list[float | None]] = [[] for _ in names]
        for number, score in outcome.scores.select("batch", "score").rows():
            parts[owner[number]].append(score)
        scores.append(parts)
    return _found(scores, names, sum(o.seconds for o in runs), notes)
