"""The journal is read in whole batches, in the order of arrival, from any feedback on."""

from pathlib import Path

import numpy as np
import torch

from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.journal_batches import journal_batches
from alphaedge.edge.store.journal import Journal

from ..processes import Edge

SIZE = 3


def test_only_whole_batches_are_read_in_the_order_of_arrival(tmp_path: Path) -> None:
    config = load(Edge(tmp_path).path)
    features, model = Features(config.model.fields, b""), config.model.make()
    journal = Journal(tmp_path / "j.db", layout=features.layout)
    count = 2 * SIZE + 2
    some = {"user": np.arange(count), "item": np.arange(count), "x": np.zeros((count, 2), np.float32)}
    packed = features.to_bytes(features.encode(some))
    ids = journal.record_predictions(packed, [0.25 * number for number in range(count)], now=1.0)
    for place, prediction in enumerate(reversed(ids)):
        journal.record_feedback([(prediction, place % 2)], now=2.0 + place)
    first, second = journal_batches(journal, features, model, SIZE, 0)
    assert (first.examples.first, first.examples.last, first.examples.time) == (1, 3, 4.0)
    assert first.examples.labels.tolist() == [0, 1, 0]
    assert first.outputs == [0.25 * number for number in (7, 6, 5)]
    assert list(first.alone) == [None] * SIZE
    (again,) = journal_batches(journal, features, model, SIZE, first.examples.last)
    assert again.outputs == second.outputs == [0.25 * number for number in (4, 3, 2)]
    assert all(torch.equal(a, b) for a, b in zip(again.examples.inputs, second.examples.inputs, strict=True))
    journal.close()
