"""Data sets: a stream of time-ordered events for each edge, with declared fields."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import torch
from torch import Tensor

from alphaedge.core.fields import KEYED, WHOLE, Field
from alphaedge.errors import InvalidValue, check_choice

Task = Literal["classify", "regress"]
METRICS: Final[Mapping[Task, str]] = {"classify": "AUC", "regress": "1-SMAPE"}  # the score for each task
SMALL_SHOWN: Final = 5  # small edges in a note


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
    """The events of all edges. Checked when made: bad data does not get further than here.

    clusters: a number for each edge, the same for edges that are alike and so the right peers; None if unknown.
    noise: the share of labels to flip, by edge, where the definition of a data set asks for it; each run draws which.
    names: of the edges; None: they are numbered. label_scale: about the size of the labels, for models that regress.
    last: the number field with the newest known value of the label, if there is one. relative: whether the label is
        never negative and changes by factors since then.
    values: what each number of an id or category field stands for, in canonical form (``alphaedge.values``);
        without them, its numbers are its values.
    columns: the names of the columns ``time``, ``edge`` and ``label`` of the table that it was made of, if any.
    classes: what the labels 0 and 1 stand for, in canonical form; None: themselves.
    notes: what the user should know of how the data were read; results keep them.
    """

    name: str
    task: Task
    fields: tuple[Field, ...]
    streams: tuple[Stream, ...]
    clusters: tuple[int, ...] | None = None
    noise: Mapping[int, float] = dataclasses.field(default_factory=dict)
    names: tuple[str, ...] | None = None
    label_scale: float = 1.0
    values: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    last: str | None = None
    relative: bool = False
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    classes: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        check_choice("task", self.task, METRICS)
        if not self.streams:
            raise InvalidValue("streams", 0, "at least one edge")
        for edge, stream in enumerate(self.streams):
            _check_stream(f"edge {edge}", stream, self.fields, self.task)
        if self.last is not None:
            check_choice("last", self.last, [f.name for f in self.fields if f.kind == "number"])
        sizes = {field.name: field.size for field in self.fields if field.kind in KEYED}
        for name, values in self.values.items():
            check_choice("values", name, sizes)
            if len(values) != sizes[name]:
                raise InvalidValue(f"values: {name}", f"{len(values)} values", f"{sizes[name]}, one for each number")

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        time: str = "",
        edge: str = "",
        label: str = "",
        ids: Sequence[str] = (),
        categories: Sequence[str] = (),
        numbers: Sequence[str] = (),
        only: bool = False,
        last: str = "",
        task: Literal["auto", "classify", "regress"] = "auto",
        name: str = "frame",
    ) -> "Dataset":
        """Make a data set of a data frame whose rows are events; columns that are not named are guessed.

        frame: of polars (lazy ones too), pandas, pyarrow, or any library that speaks Arrow (``__arrow_c_stream__``).
        time, edge, label: columns; a time is a date, a date with time of day, or a number.
        ids, categories, numbers: columns to learn from. A column of arrays of one length is one field of numbers. The
            kinds of the other columns are guessed; only: they are not used.
        last: of the numbers, the newest known value of the label, or ``none``.
        task: ``classify`` a label of two values (the larger one is positive), ``regress`` a number, or ``auto``.

        >>> import polars as pl
        >>> rows = {"day": range(40), "shop": ["a", "b"] * 20, "price": [0.5] * 40, "sold": [0, 0, 1, 1] * 10}
        >>> [field.name for field in Dataset.from_frame(pl.DataFrame(rows)).fields]
        ['price']
        """
        from alphaedge.data.table import Table, from_frame  # here, since tables become data sets

        table = Table(
            file=name,
            time=time,
            edge=edge,
            label=label,
            ids=tuple(ids),
            categories=tuple(categories),
            numbers=tuple(numbers),
            only=only,
            last=last,
            task=task,
        )
        return from_frame(frame, table)

    @property
    def metric(self) -> str:
        """The score for this task."""
        return METRICS[self.task]

    @property
    def edge_names(self) -> list[str]:
        """The names of the edges, or their numbers if they have none."""
        return list(self.names) if self.names else [str(e) for e in range(len(self.streams))]

    def window(self, rows: int | None) -> "Dataset":
        """Return the ``rows`` events, of all edges, after the first quarter of the time-ordered events; None: all.

        The first quarter is left out because settings may have been chosen on it.
        """
        total = sum(len(s) for s in self.streams)
        if rows is None or rows >= total:
            return self
        start = min(total // 4, total - rows)
        return self._between(start, start + rows)

    def first(self, share: float | None) -> "Dataset":
        """Return the earliest events, this share of those of all edges; None: all."""
        return self if share is None else self._between(0, round(share * sum(len(s) for s in self.streams)))

    def without_small(self, events: int) -> "Dataset":
        """Leave out edges with fewer events, and say so; all stay if none has so many."""
        kept = [edge for edge, stream in enumerate(self.streams) if len(stream) >= events]
        if len(kept) in (0, len(self.streams)):
            return self
        names = self.edge_names
        small = [f"{names[e]} ({len(s)})" for e, s in enumerate(self.streams) if e not in kept]
        shown = ", ".join(small[:SMALL_SHOWN]) + (f" and {len(small) - SMALL_SHOWN} more" * (len(small) > SMALL_SHOWN))
        note = f"left out, with fewer events than a batch of {events}: {shown}; --batch-size sets another size"
        return dataclasses.replace(
            self,
            streams=tuple(self.streams[edge] for edge in kept),
            names=tuple(names[edge] for edge in kept),
            clusters=self.clusters and tuple(self.clusters[edge] for edge in kept),
            noise={place: self.noise[edge] for place, edge in enumerate(kept) if edge in self.noise},
            notes=(*self.notes, note),
        )

    def _between(self, start: int, stop: int) -> "Dataset":
        """The events at these places in the order of time over all edges."""
        order = torch.cat([s.times for s in self.streams]).argsort(stable=True)
        inside = torch.zeros(len(order), dtype=torch.bool)
        inside[order[start:stop]] = True
        parts = zip(self.streams, torch.split(inside, [len(s) for s in self.streams]), strict=True)
        return dataclasses.replace(self, streams=tuple(_select(s, mask) for s, mask in parts))

    def flip(self, labels: Tensor) -> Tensor:
        """Mirror labels in the label range, low + high - y: 0 and 1 change places, and small and large numbers too."""
        low, high = (0.0, 1.0) if self.task == "classify" else self.label_range()
        return low + high - labels

    def label_range(self) -> tuple[float, float]:
        """Return the smallest and the largest label of all edges."""
        return (
            min(float(s.labels.min()) for s in self.streams if len(s)),
            max(float(s.labels.max()) for s in self.streams if len(s)),
        )


def same_classes(one: tuple[str, str] | None, other: tuple[str, str] | None) -> bool:
    """Whether the labels 0 and 1 stand for the same in two places; None: not known, and so it may be.

    >>> same_classes(("0", "1"), ("false", "true")), same_classes(("no", "yes"), ("maybe", "no"))
    (True, False)
    """
    plain = {("false", "true"): ("0", "1")}
    return one is None or other is None or plain.get(one, one) == plain.get(other, other)


def _select(stream: Stream, mask: Tensor) -> Stream:
    return Stream({k: v[mask] for k, v in stream.inputs.items()}, stream.labels[mask], stream.times[mask])


def _check_stream(where: str, stream: Stream, fields: tuple[Field, ...], task: Task) -> None:
    count = len(stream.labels)
    names = [f.name for f in fields]
    if set(stream.inputs) != set(names):
        raise InvalidValue(f"{where}: fields", sorted(stream.inputs), f"exactly {', '.join(names)}")
    wrong = stream.labels[~stream.labels.isfinite()]
    if len(wrong):
        raise InvalidValue(f"{where}: labels", float(wrong[0]), "finite numbers")
    if task == "classify" and not bool(((stream.labels == 0) | (stream.labels == 1)).all()):
        other = stream.labels[(stream.labels != 0) & (stream.labels != 1)][0].item()
        raise InvalidValue(f"{where}: labels", other, "0 or 1 (AUC needs two classes; use task regress for numbers)")
    if stream.times.shape != (count,) or not bool(torch.isfinite(stream.times).all()):
        raise InvalidValue(f"{where}: times", tuple(stream.times.shape), f"{count} finite times, one per label")
    if count > 1 and bool((stream.times[1:] < stream.times[:-1]).any()):
        raise InvalidValue(f"{where}: times", "a step back in time", "events in the order of their times")
    for field in fields:
        _check_field(f"{where}: field {field.name}", stream.inputs[field.name], field, count)


def _check_field(where: str, values: Tensor, field: Field, count: int) -> None:
    if field.kind in WHOLE:
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
    refused = values.isinf() if field.missing else ~values.isfinite()
    if bool(refused.any()):
        raise InvalidValue(where, float(values[refused][0]), "finite numbers")
