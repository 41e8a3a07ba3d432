"""Streams: the time-ordered events of each edge, with declared fields."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from alphaedge.core.fields import Field
from alphaedge.errors import InvalidValue, check_choice

Task = Literal["classify", "regress"]


@final
@dataclass(frozen=True)
class Stream:
    """One edge's events in the order of their times: inputs by field name [N, ...], labels [N], times [N]."""

    inputs: Mapping[str, Tensor]
    labels: Tensor
    times: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@final
@dataclass(frozen=True)
class Dataset:
    """What all edges of an experiment see. Checked when made: bad data does not get further than here.

    ``clusters``, where the data's maker knows them, says which edges are alike: the right peers. ``noise``: edges with
    a share of their labels flipped, as the definition of the data set wants it; which ones, each run draws. ``names``
    of the edges, if they have any; ``label_scale``: about the size of the labels, for models that regress.
    """

    name: str
    task: Task
    fields: tuple[Field, ...]
    streams: tuple[Stream, ...]
    clusters: tuple[int, ...] | None = None
    noise: Mapping[int, float] = dataclasses.field(default_factory=dict)
    names: tuple[str, ...] | None = None
    label_scale: float = 1.0

    def __post_init__(self) -> None:
        check_choice("task", self.task, ["classify", "regress"])
        if not self.streams:
            raise InvalidValue("streams", 0, "at least one edge")
        for edge, stream in enumerate(self.streams):
            _check(f"edge {edge}", stream, self.fields, self.task)

    @property
    def metric(self) -> str:
        """The score that this task is judged by."""
        return "AUC" if self.task == "classify" else "1-SMAPE"

    @property
    def edge_names(self) -> list[str]:
        """What the edges are called: their names, or their numbers."""
        return list(self.names) if self.names else [str(e) for e in range(len(self.streams))]

    def window(self, rows: int | None) -> "Dataset":
        """The ``rows`` events, of all edges, that follow the first quarter of the time-ordered events; None: all.

        The first quarter is where settings may have been chosen; a shorter look is taken behind it.
        """
        total = sum(len(s) for s in self.streams)
        if rows is None or rows >= total:
            return self
        start = min(total // 4, total - rows)
        order = torch.cat([s.times for s in self.streams]).argsort(stable=True)
        inside = torch.zeros(total, dtype=torch.bool)
        inside[order[start : start + rows]] = True
        parts = zip(self.streams, torch.split(inside, [len(s) for s in self.streams]), strict=True)
        return dataclasses.replace(self, streams=tuple(_masked(s, mask) for s, mask in parts))

    def flip(self, labels: Tensor) -> Tensor:
        """Mirror labels in the label range, low + high - y: 0 and 1 change places, and so do small and large numbers."""
        low, high = (0.0, 1.0) if self.task == "classify" else self.label_range()
        return low + high - labels

    def label_range(self) -> tuple[float, float]:
        """Smallest and largest label of the whole data set."""
        return (
            min(float(s.labels.min()) for s in self.streams if len(s)),
            max(float(s.labels.max()) for s in self.streams if len(s)),
        )


def _masked(stream: Stream, mask: Tensor) -> Stream:
    return Stream({k: v[mask] for k, v in stream.inputs.items()}, stream.labels[mask], stream.times[mask])


def _check(where: str, stream: Stream, fields: tuple[Field, ...], task: Task) -> None:
    count = len(stream.labels)
    names = [f.name for f in fields]
    if set(stream.inputs) != set(names):
        raise InvalidValue(f"{where}: fields", sorted(stream.inputs), f"exactly {', '.join(names)}")
    if not bool(torch.isfinite(stream.labels).all()):
        raise InvalidValue(f"{where}: labels", _first_bad(stream.labels), "finite numbers")
    if task == "classify" and not bool(((stream.labels == 0) | (stream.labels == 1)).all()):
        wrong = stream.labels[(stream.labels != 0) & (stream.labels != 1)][0].item()
        raise InvalidValue(f"{where}: labels", wrong, "0 or 1 (AUC needs two classes; use task regress for numbers)")
    if stream.times.shape != (count,) or not bool(torch.isfinite(stream.times).all()):
        raise InvalidValue(f"{where}: times", tuple(stream.times.shape), f"{count} finite times, one per label")
    if count > 1 and bool((stream.times[1:] < stream.times[:-1]).any()):
        raise InvalidValue(f"{where}: times", "a step back in time", "events in the order of their times")
    for field in fields:
        _check_field(f"{where}: field {field.name}", stream.inputs[field.name], field, count)


def _check_field(where: str, values: Tensor, field: Field, count: int) -> None:
    if field.kind in ("id", "category"):
        if values.dim() < 1 or len(values) != count or values.is_floating_point():
            raise InvalidValue(where, f"{values.dtype} {tuple(values.shape)}", f"whole numbers, {count} of them")
        if count and (int(values.min()) < 0 or int(values.max()) >= field.size):
            wrong = int(values.min()) if int(values.min()) < 0 else int(values.max())
            raise InvalidValue(where, wrong, f"an {field.kind} from 0 to {field.size - 1}")
        return
    if values.shape != (count, field.size) or not values.is_floating_point():
        raise InvalidValue(
            where, f"{values.dtype} {tuple(values.shape)}", f"float numbers of shape {(count, field.size)}"
        )
    if not bool(torch.isfinite(values).all()):
        raise InvalidValue(where, _first_bad(values), "finite numbers")


def _first_bad(values: Tensor) -> float:
    return float(values[~torch.isfinite(values)].flatten()[0])
