"""The events of one edge, as its model takes them."""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from alphaedge.core.batch import Batch, compact
from alphaedge.core.fields import WHOLE, Field
from alphaedge.core.model import Model
from alphaedge.data.stream import Stream
from alphaedge.errors import check_choice


@final
@dataclass(frozen=True)
class Events:
    """N events in the order of their times. inputs: of each of the model's fields, [N, ...]; labels: [N].

    classes: whether labels are 0 and 1.
    """

    fields: tuple[Field, ...]
    inputs: tuple[Tensor, ...]
    labels: Tensor
    classes: bool

    @classmethod
    def of(cls, stream: Stream, fields: tuple[Field, ...], model: Model, *, classes: bool) -> "Events":
        """Those of an edge's stream."""
        by_name = {field.name: field for field in fields}
        inputs = [stream.inputs[name] for name in model.fields]
        numbers = [x.to(model.dtype) if x.is_floating_point() else x.long() for x in inputs]
        return cls(
            tuple(by_name[name] for name in model.fields), tuple(numbers), stream.labels.to(model.dtype), classes
        )

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, model: Model, which: Tensor) -> Batch:
        """Some events [k, B] as the batches of k edges."""
        inputs, rows = compact([x[which] for x in self.inputs], model.tables)
        return Batch(tuple(inputs), tuple(rows), self.labels[which])

    def field(self, name: str) -> Field:
        """The field of users with that name."""
        allowed = {field.name: field for field in self.fields if field.kind in WHOLE}
        check_choice("privacy.user", name, allowed)
        return allowed[name]

    def users(self, name: str) -> Tensor:
        """Whose event each is, [N], by a field."""
        return self.inputs[self.fields.index(self.field(name))]

    def with_users(self, name: str, users: Tensor) -> "Events":
        """The same events of other users."""
        place = self.fields.index(self.field(name))
        return replace(self, inputs=tuple(users if i == place else x for i, x in enumerate(self.inputs)))

    def changed(self, places: Tensor, inputs: tuple[Tensor, ...], labels: Tensor) -> "Events":
        """The same events with others in some places."""
        whole = [x.index_copy(0, places, new) for x, new in zip(self.inputs, inputs, strict=True)]
        return replace(self, inputs=tuple(whole), labels=self.labels.index_copy(0, places, labels))

    def first(self, count: int) -> "Events":
        """The first of them."""
        return replace(self, inputs=tuple(x[:count] for x in self.inputs), labels=self.labels[:count])


def drawn(events: Events, count: int, generator: torch.Generator) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs and labels of events that stand out: rare inputs at the ends of their ranges, and a label to surprise.

    Their gradients are long, and have little in common with each other.
    """
    inputs = []
    for field, x in zip(events.fields, events.inputs, strict=True):
        if field.kind in WHOLE:
            inputs.append(torch.randint(0, field.size, (count,), generator=generator))
        elif field.kind == "set":
            inputs.append(torch.bernoulli(torch.full((count, *x.shape[1:]), 0.5), generator=generator).to(x))
        else:
            known = torch.where(x.isnan(), x.nanmean(0), x)
            signs = torch.randint(0, 2, (count, *x.shape[1:]), generator=generator) * 2 - 1
            inputs.append((known.mean(0) + 4 * known.std(0) * signs).to(x))
    mean, deviation = events.labels.mean(), events.labels.std()
    if events.classes:
        labels = torch.full((count,), float(mean < 0.5))
    else:
        labels = mean + 4 * deviation * (torch.randint(0, 2, (count,), generator=generator) * 2 - 1)
    return tuple(inputs), labels.to(events.labels)
