"""The labelled events that an edge's journal still has, as its model takes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor

from alphaedge.audit.events import Events
from alphaedge.core.fields import Field
from alphaedge.core.model import Model
from alphaedge.edge.config import EdgeConfig
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.store.journal import Journal, LabelledPrediction

MOST_EVENTS: Final = 20_000  # that are read: as many of either kind, the nearest to the publication


@final
@dataclass(frozen=True)
class JournalEvents:
    """events: in the order of their feedback, with ids numbered anew. learned: [N], before a certain feedback.

    keys: per id table, the key of each number.
    """

    events: Events
    learned: Tensor
    keys: tuple[Tensor, ...]

    @property
    def later(self) -> Tensor:
        """Those that came later, [N]."""
        return ~self.learned


def read_events(config: EdgeConfig, path: Path, model: Model, last: int, held_back: int = 0) -> JournalEvents:
    """Read the events around a moment, half from before and half from after it; writes nothing.

    last: number of the last feedback before that moment. held_back: events right before it that count as later.
    """
    features = Features(config.model.fields, b"")  # the journal holds keys, not ids
    journal = Journal(path, layout=features.layout, readonly=True, traceless=True)
    try:
        half = MOST_EVENTS // 2
        read = journal.labelled(max(0, last - held_back - half), held_back + MOST_EVENTS)
    finally:
        journal.close()
    learned = [one for one in read if one.number <= last]
    kept = learned[: len(learned) - held_back] if held_back else learned
    return _as_events(config, features, model, (kept + read[len(kept) :])[: len(kept) + half], len(kept))


def _as_events(
    config: EdgeConfig, features: Features, model: Model, read: list[LabelledPrediction], learned: int
) -> JournalEvents:
    by_name = {f.name: Field(f.name, f.kind, f.size, f.missing) for f in config.model.fields}
    examples = features.from_bytes([one.features for one in read]) if read else features.sample()[:0]
    found = features.to_tensors(examples, model.fields)
    inputs = [x.to(model.dtype) if x.is_floating_point() else x.long() for x in found]
    labels = torch.tensor([one.label for one in read], dtype=model.dtype)
    fields = tuple(by_name[name] for name in model.fields)
    skipped = max((_too_early(torch.stack([inputs[f] for f in t.fields], 1), t.rows) for t in model.tables), default=0)
    keys = []
    for table in model.tables:
        some = torch.stack([inputs[f][skipped:] for f in table.fields], 1)
        known, numbers = torch.unique(some, return_inverse=True)
        keys.append(known)
        for place, f in enumerate(table.fields):
            inputs[f] = torch.cat([inputs[f][:skipped], numbers[:, place]])
    events = Events(fields, tuple(x[skipped:] for x in inputs), labels[skipped:], config.model.task == "classify")
    return JournalEvents(events, torch.arange(skipped, len(labels)) < learned, tuple(keys))


def _too_early(keys: Tensor, rows: int) -> int:
    """How many of the first events [N, F] to leave out, so that the others have no more ids than a table has rows."""
    seen: set[int] = set()
    for place in reversed(range(len(keys))):
        seen.update(keys[place].tolist())
        if len(seen) > rows:
            return place + 1
    return 0
