"""Simple baselines: what one would try before any network, from labels revealed before, scored like every method.

usual     the mean label of the edge so far
by field  the mean label of the event's id or category so far, drawn towards the edge's mean while there are few events
last      the last label that was revealed (regression)
column    a column of numbers as it is, such as the last measurement of what is to be predicted (regression)
ridge     a ridge regression of the edge on its columns (regression; simulation.ridge_baseline)

A batch is predicted from the labels that a method has at that moment: of whole batches, ``delay`` batches late.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, final

import torch
from torch import Tensor

from alphaedge import scoring
from alphaedge.data.stream import Dataset, Stream
from alphaedge.simulation.ridge_baseline import ridge_columns, ridge_predictions

Kind = Literal["usual", "by field", "last", "column", "ridge"]

# Pseudo-count: with this many events, an id's mean is halfway between its own and the edge's.
PRIOR_EVENTS: Final = 10.0


class Guess(NamedTuple):
    """The predictions of one baseline for the events of one edge."""

    name: str
    kind: Kind
    predictions: Tensor


@final
@dataclass(frozen=True)
class Baseline:
    """The scores of one baseline in one run, by edge: like those of a ``RunResult``."""

    kind: Kind
    per_edge: list[float | None]
    pooled: list[float | None]
    losses: list[float | None]

    @classmethod
    def joined(cls, parts: Sequence["Baseline"]) -> "Baseline":
        """That of a fleet, from those of its shards."""
        return cls(
            parts[0].kind,
            [value for part in parts for value in part.per_edge],
            [value for part in parts for value in part.pooled],
            [value for part in parts for value in part.losses],
        )


def score_baselines(
    data: Dataset, labels: Mapping[int, Tensor], first: Sequence[int], delay: int
) -> dict[str, Baseline]:
    """Score every baseline on some edges.

    labels: by edge, those of its scored batches, [batches, size]. first: by edge, the number of the first of them.
    """
    found: dict[str, Baseline] = {}
    for edge, scored in labels.items():
        size = scored.shape[1]
        start = first[edge] * size
        stream = _between(data.streams[edge], start, start + scored.numel())
        for name, kind, predictions in guesses(data, stream, scored.flatten(), size, delay):
            one = found.setdefault(name, Baseline(kind, [], [], []))
            by_batch = predictions.float().view(scored.shape)
            one.per_edge.append(scoring.as_number(scoring.SCORES[data.metric](by_batch, scored).nanmean()))
            one.pooled.append(scoring.score_at_once(data.metric, by_batch, scored))
            one.losses.append(scoring.mean_loss(data.task, by_batch, scored))
    return found


def guesses(data: Dataset, stream: Stream, labels: Tensor, size: int, delay: int) -> Iterator[Guess]:
    """The predictions of all baselines for the events of one edge. labels: with the noise of the run."""
    known = events_known(len(labels), size, delay)
    classify = data.task == "classify"
    usual = running_mean(labels, known, 0.5 if classify else 0.0)
    yield Guess("running rate" if classify else "running mean", "usual", usual)
    for field in data.fields:
        values = stream.inputs[field.name]
        if field.kind == "number" and not classify:
            for column in range(field.size):
                name = field.name if field.size == 1 else f"{field.name}[{column}]"
                yield Guess(f"{name} as it is", "column", values[:, column])
        elif field.kind != "number" and values.dim() == 1:
            name = f"{'rate' if classify else 'mean'} by {field.name}"
            yield Guess(name, "by field", mean_by(values, labels, known, usual))
    if not classify:
        yield Guess("last label", "last", torch.where(known > 0, labels[known.clamp(min=1) - 1], 0.0))
        if columns := ridge_columns(data.fields):
            yield Guess("ridge regression", "ridge", ridge_predictions(columns, stream, labels, known))


def events_known(events: int, size: int, delay: int) -> Tensor:
    """For each event of an edge, how many of its labels are revealed when it is predicted: [events].

    >>> events_known(6, 2, 0).tolist(), events_known(6, 2, 1).tolist()
    ([0, 0, 2, 2, 4, 4], [0, 0, 0, 0, 2, 2])
    """
    return ((torch.arange(events, device="cpu") // size - delay) * size).clamp(min=0)


def running_mean(labels: Tensor, known: Tensor, start: float) -> Tensor:
    """The mean of the labels revealed before each event; ``start`` where there are none."""
    sums = torch.cat([labels.new_zeros(1, dtype=torch.float64), labels.double().cumsum(0)])
    return torch.where(known > 0, sums[known] / known.clamp(min=1), start)


def mean_by(values: Tensor, labels: Tensor, known: Tensor, usual: Tensor) -> Tensor:
    """The mean of the revealed labels of events with the same value, drawn towards ``usual``.

    The places of each value are looked up in one sorted list of (value, place), without a loop over batches.

    >>> known, usual = events_known(4, 1, 0), torch.full((4,), 0.5)
    >>> mean_by(torch.tensor([7, 7, 8, 7]), torch.tensor([1.0, 1.0, 0.0, 1.0]), known, usual).mul(132).tolist()
    [66.0, 72.0, 66.0, 77.0]
    """
    order = values.argsort(stable=True)
    own = values[order].long() * len(labels)
    places = own + order
    sums = torch.cat([labels.new_zeros(1, dtype=torch.float64), labels[order].double().cumsum(0)])
    # Looked up in the order of the list, which is kind to the cache.
    start, stop = torch.searchsorted(places, own), torch.searchsorted(places, own + known[order])
    means = (sums[stop] - sums[start] + PRIOR_EVENTS * usual[order]) / (stop - start + PRIOR_EVENTS)
    return torch.empty_like(means).index_copy_(0, order, means)


def _between(stream: Stream, start: int, stop: int) -> Stream:
    inputs = {name: values[start:stop] for name, values in stream.inputs.items()}
    return Stream(inputs, stream.labels[start:stop], stream.times[start:stop])
