"""The learning loop, without its process."""

import itertools
from pathlib import Path

from alphaedge.core.gradients import OneAtATime
from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.journal import Journal

from ..processes import Edge


def test_the_time_of_a_hand_over_does_not_depend_on_the_wall_clock(tmp_path: Path) -> None:
    config = load(Edge(tmp_path).path)
    Journal(tmp_path / "data" / "journal.db", layout=Features(config.model.fields, b"").layout).close()
    clock = itertools.count(2e9, -7200.0)  # set back by two hours at every look
    status = LearningLoop(config, tmp_path, OneAtATime, lambda: next(clock)).status
    assert status.hand_overs == 1
    assert status.hand_over_seconds > 0
