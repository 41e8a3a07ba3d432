"""The batches of a live edge: its journal cut into whole batches, in the order in which feedback arrived."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from alphaedge.core.model import Model
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.store.journal import Journal


class JournalBatch(NamedTuple):
    """A batch, and what was predicted of its examples. alone: by the home model alone, where there was one."""

    examples: Examples
    outputs: Sequence[float]
    alone: Sequence[float | None]


def journal_batches(
    journal: Journal, features: Features, model: Model, size: int, after: int
) -> Iterator[JournalBatch]:
    """Read batches of ``size`` labelled examples, as long as they are complete. after: number of a feedback."""
    while len(labelled := journal.labelled(after, size)) == size:
        inputs = features.to_tensors(features.from_bytes([one.features for one in labelled]), model.fields)
        labels = torch.tensor([one.label for one in labelled], dtype=model.dtype)
        first, after = labelled[0].number, labelled[-1].number
        examples = Examples(inputs, labels, first, after, max(one.labelled_at for one in labelled))
        yield JournalBatch(examples, [one.output for one in labelled], [one.alone for one in labelled])
