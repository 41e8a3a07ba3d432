"""What an edge predicts from, at one moment: its models without what only learning needs, by the names of a module.

Every id table has a row for each value that the edge has met, and one more, the last, for all other values: the mean of
the rows that new ids start with, and an empty tally.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import torch
from torch import Tensor

from alphaedge.core.model import Model, TableLayout
from alphaedge.core.state import ModelState
from alphaedge.core.tally import tell
from alphaedge.edge.config import ModelConfig
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.learning.learner import Learner

SECRET: Final = b"alphaedge.load"  # for keys that never leave the process


class Part(NamedTuple):
    """One model. tensors: its parameters and buffers by name. told: what it is told of each row, by id table."""

    tensors: dict[str, Tensor]
    told: dict[str, Tensor]


@final
@dataclass(frozen=True)
class Snapshot:
    """What an edge predicts from.

    share: of the mixed model in a prediction; the rest is the home model's. parts: both by name. keys: of the rows, by
    id table. secret: under which values become keys. values: of the rows, by id table; None if only keys are known.
    """

    edge: str
    config: ModelConfig
    model: Model
    share: float
    parts: Mapping[str, Part]
    keys: Mapping[str, Sequence[int]]
    secret: bytes
    values: Mapping[str, Sequence[str]] | None

    @classmethod
    def of(
        cls,
        learner: Learner,
        edge: str,
        config: ModelConfig,
        secret: bytes,
        known: Mapping[str, Sequence[str]] | None,
    ) -> "Snapshot":
        """Take one of a learner. known: all values that there are, by field, where they are known."""
        model, home = learner.model, learner.method.home
        keys = {
            layout.name: table.numbering.keys_by_row()
            for layout, table in zip(model.tables, learner.tables, strict=True)
        }
        share = float(home.share(learner.evidence)) if home is not None and learner.home is not None else 1.0
        return cls(
            edge=edge,
            config=config,
            model=model,
            share=share,
            parts={name: _part(model, state, keys) for name, state in learner.states.items()},
            keys=keys,
            secret=secret,
            values=None if known is None else _values(model, keys, known, secret),
        )


def _part(model: Model, state: ModelState, keys: Mapping[str, Sequence[int]]) -> Part:
    dense = state.dense[0]
    tensors = {s.name: dense[s.start : s.stop].view(s.shape).clone() for s in model.dense_layout}
    tensors |= {name: buffer[0].clone() for name, buffer in state.buffers.items()}
    told = {}
    for t, layout in enumerate(model.tables):
        unknown = model.initial_table(t).mean(0, keepdim=True)
        rows = torch.cat([state.tables[t].value[0, : len(keys[layout.name])], unknown])
        tensors |= {s.name: rows[:, s.start : s.stop].reshape(-1, *s.shape[1:]) for s in layout.slices}
        if layout.tallied:
            told[layout.name] = tell(rows, layout.width)
    return Part(tensors, told)


def _values(
    model: Model, keys: Mapping[str, Sequence[int]], known: Mapping[str, Sequence[str]], secret: bytes
) -> dict[str, list[str]]:
    """The values of the rows, by id table."""
    found = {}
    for layout in model.tables:
        by_key = {key_of(value, secret): value for name in _fields(model, layout) for value in known[name]}
        found[layout.name] = [by_key[key] for key in keys[layout.name]]
    return found


def _fields(model: Model, layout: TableLayout) -> list[str]:
    return [model.fields[f] for f in layout.fields]
