"""The learning loop, without its process."""

import itertools
from pathlib import Path

import numpy as np

from alphaedge.core.gradients import OneAtATime
from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.journal import Journal

from ..processes import BATCH, EVERY, Edge, events


def test_the_time_of_a_hand_over_does_not_depend_on_the_wall_clock(tmp_path: Path) -> None:
    config = load(Edge(tmp_path).path)
    Journal(tmp_path / "data" / "journal.db", layout=Features(config.model.fields, b"").layout).close()
    clock = itertools.count(2e9, -7200.0)  # set back by two hours at every look
    status = LearningLoop(config, tmp_path, OneAtATime, lambda: next(clock)).status
    assert status.hand_overs == 1
    assert status.hand_over_seconds > 0


def test_the_gain_compares_what_was_served_with_the_home_model_alone_and_outlives_a_restart(tmp_path: Path) -> None:
    """Scored as it was predicted: the journal has both outputs. Batches without the second are not compared."""
    config = load(Edge(tmp_path).path)
    features = Features(config.model.fields, b"secret")
    some = events(2 * EVERY * BATCH)
    inputs = {
        "user": np.array([e[0].encode() for e in some], dtype=object),
        "item": np.array([e[1] for e in some]),
        "x": np.array([e[2] for e in some], dtype=np.float32),
    }
    packed, half = features.to_bytes(features.encode(inputs)), EVERY * BATCH
    served = [0.9 if e[3] else 0.1 for e in some]  # right each time
    journal = Journal(tmp_path / "data" / "journal.db", layout=features.layout)
    ids, _ = journal.write(packed[:half], served[:half], (), 1.0, alone=[0.5] * half)  # guesses: an AUC of 0.5
    ids += journal.record_predictions(packed[half:], served[half:], now=2.0)
    journal.record_feedback([(i, e[3]) for i, e in zip(ids, some, strict=True)], now=3.0)
    journal.close()
    for _ in range(2):  # the second time from the checkpoints
        loop = LearningLoop(config, tmp_path)
        while loop.step_alone():
            pass
        loop.report({}, 4.0)
        assert loop.progress.batches == 2 * EVERY
        assert (loop.progress.scores, loop.progress.compared) == (2 * EVERY, EVERY)
        assert loop.status.score == 1.0
        assert loop.status.gain == 0.5
        assert loop.vitals().gain == 0.5
