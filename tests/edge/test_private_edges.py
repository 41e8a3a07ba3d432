"""Real edges with privacy on: they exchange released models over TLS, mix them, and tell each other nothing else."""

import stat
from pathlib import Path
from typing import Any

import pytest
import torch

from alphaedge.edge.store.status import LearnerStatus, read_learner_status
from alphaedge.monitoring.vitals import Vitals

from .learning.private import released
from .processes import CONFIG, Edge, fleet_of, restored, teach, wait_for

PRIVACY = {"epsilon": 80.0, "tables": ["item"], "tally_batches": 1}
METHOD: dict[str, Any] = {**CONFIG["method"], "precision": "full", "privacy": PRIVACY}
PERIODS = 6  # the first lot, of ten batches, is complete in the third


def status_of(edge: Edge) -> LearnerStatus:
    found = read_learner_status(edge.folder / "data" / "status.json")
    assert found is not None
    return found


@pytest.mark.timeout(600)
def test_two_private_edges_learn_from_each_other_and_tell_nothing_else(tmp_path: Path) -> None:
    names = ["berlin", "boston"]
    with fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")], method=METHOD) as edges:
        for period in range(PERIODS):
            for number, edge in enumerate(edges):
                teach(edge, 1, seed=10 * period + number)
        for edge, other in zip(edges, reversed(names), strict=True):
            wait_for(lambda: status_of(edge).peers[other].publication > 1, "the publication to be known")  # noqa: B023
            teach(edge, 1, seed=99)
            wait_for(lambda: status_of(edge).peers[other].pulls > 0, "a pull")  # noqa: B023
            teach(edge, 1, seed=100)
        for edge, me, other in zip(edges, names, reversed(names), strict=True):
            wait_for(lambda: status_of(edge).fleet[other].vitals.aggregations > PERIODS, "its vitals")  # noqa: B023
            status = status_of(edge)
            theirs, own = status.fleet[other].vitals, status.fleet[me].vitals
            assert theirs == Vitals(aggregations=theirs.aggregations), "nothing that comes from its events"
            assert own.score is not None, "the operator sees all"
            assert own.neighbours == (other,)
            assert status.peers[other].refused == status.peers[other].failures == 0
            assert status.privacy_windows >= 1
    for edge, other in zip(edges, reversed(names), strict=True):
        learner = restored(edge)
        held = learner.held[other]
        assert learner.links.known[other].publication > 0, "it was mixed in"
        assert bool(held.has[1].any()), "rows of items came, which this edge has not named"
        assert not bool(held.has[0].any()), "and none of users"
        assert held.records == released(restored(edges[names.index(other)])).records or held.number > 0
        assert torch.equal(learner.publication.dense, learner.snapshot(1).dense)
        key = edge.folder / "data" / "noise.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
