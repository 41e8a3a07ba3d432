"""Reference scores: two baselines that any method must beat, and a model that may see every edge's data.

persistence   predicts the last measured value: the first number of a data set whose labels are its next values
prior         predicts the running mean of the edge's labels; for classification, the running rate of the item
pooled        one model trained on the data of all edges in order of time, as a central server would train it

Each predicts a batch before it learns from it, and is scored batch by batch like every method.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from alphaedge.data.stream import Dataset, Stream
from alphaedge.experiments.cell import CellResult, curve
from alphaedge.scoring import SCORES, mean
from alphaedge.simulation.baselines import events_known, mean_by, running_mean
from alphaedge.simulation.conditions import Conditions
from alphaedge.simulation.run_result import RunResult


def noisy_labels(data: Dataset, edge: int, seed: int) -> Tensor:
    """Return an edge's labels with the noise that belongs to the data set."""
    labels, share = data.streams[edge].labels, data.noise.get(edge, 0.0)
    if not share:
        return labels
    flips = torch.from_numpy(Conditions().draw_noise(edge, len(labels), share, seed))
    return torch.where(flips, data.flip(labels), labels)


def score_baseline(name: str, data: Dataset, size: int, runs: int) -> CellResult:
    """Score ``prior`` or ``persistence`` on batches of ``size``. Runs differ only in the noise of the data set."""
    scores = [[batch_scores(name, data, edge, size, seed) for edge in range(len(data.streams))] for seed in range(runs)]
    return _result_of(scores, data.edge_names)


def batch_scores(name: str, data: Dataset, edge: int, size: int, seed: int) -> list[float | None]:
    """Score each batch of one edge; None where a batch has no score."""
    stream = data.streams[edge]
    count = len(stream) // size
    labels = noisy_labels(data, edge, seed)[: count * size]
    predictions = _persistence(data, stream) if name == "persistence" else _prior(data, stream, labels, size)
    scores = SCORES[data.metric](predictions[: count * size].view(count, size), labels.view(count, size))
    return [None if s != s else s for s in scores.tolist()]


def pool_streams(data: Dataset, size: int, seed: int) -> tuple[Dataset, list[int]]:
    """Join the batches of all edges into the stream of a single edge, ordered by the time of their last events.

    The labels have the noise of ``seed``. Returns the data set, and for each batch the edge it came from.
    """
    counts = [len(s) // size for s in data.streams]
    owner = torch.cat([torch.full((c,), e) for e, c in enumerate(counts)])
    times = torch.cat([s.times[size - 1 : c * size : size] for s, c in zip(data.streams, counts, strict=True)])
    order = times.argsort(stable=True)

    def join(parts: list[Tensor]) -> Tensor:
        cut = torch.cat([p[: c * size] for p, c in zip(parts, counts, strict=True)])
        return cut.view(len(owner), size, *cut.shape[1:])[order].flatten(0, 1)

    inputs = {f.name: join([s.inputs[f.name] for s in data.streams]) for f in data.fields}
    labels = join([noisy_labels(data, e, seed) for e in range(len(counts))])
    stream = Stream(inputs, labels, times[order].repeat_interleave(size))
    whole = replace(data, streams=(stream,), noise={}, names=None, clusters=None)
    return whole, owner[order].tolist()


def pooled_result(runs: list[RunResult], notes: list[str], names: list[str], owner: list[int]) -> CellResult:
    """Summarise runs of the pooled model. Each batch counts for the edge it came from (``owner``)."""
    scores = []
    for run in runs:
        per_edge: list[list[float | None]] = [[] for _ in names]
        for number, score in run.scores.select("batch", "score").rows():
            per_edge[owner[number]].append(score)
        scores.append(per_edge)
    return _result_of(scores, names, sum(r.seconds for r in runs), notes)


def _result_of(
    scores: list[list[list[float | None]]], names: list[str], seconds: float = 0.0, notes: Sequence[str] = ()
) -> CellResult:
    """Summarise ``scores[run][edge][batch]``."""
    per_edge = [[mean(edge) for edge in run] for run in scores]
    return CellResult(
        per_seed=[mean(run) for run in per_edge],
        per_edge=per_edge,
        curves=[curve([run[edge] for run in scores]) for edge in range(len(names))],
        names=names,
        seconds=seconds,
        notes=list(notes),
    )


def _persistence(data: Dataset, stream: Stream) -> Tensor:
    name = next(f.name for f in data.fields if f.kind == "number")
    return stream.inputs[name][:, 0]


def _prior(data: Dataset, stream: Stream, labels: Tensor, size: int) -> Tensor:
    """Predict the mean label of all earlier batches; for classification, the mean of the item, the last id field."""
    known = events_known(len(labels), size, delay=0)
    usual = running_mean(labels, known, 0.0)
    ids = [f for f in data.fields if f.kind == "id"]
    if data.task != "classify" or not ids:
        return usual.float()
    return mean_by(stream.inputs[ids[-1].name][: len(labels)], labels, known, usual).float()
