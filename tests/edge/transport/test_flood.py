"""A real edge under a flood of connections."""

import contextlib
import os
import resource
from pathlib import Path

import pytest

from alphaedge.edge.transport.limit_hits import UNIDENTIFIED

from ..hostile import status
from ..processes import fleet_of, teach, wait_for
from ..serving.test_metrics import metrics, value
from .test_listener import flood


@pytest.mark.long
def test_a_flood_of_connections_does_not_end_the_learner(tmp_path: Path) -> None:
    """Its connections leave descriptors for the files that learning needs."""
    with contextlib.ExitStack() as stack:
        (edge,) = stack.enter_context(fleet_of(tmp_path, [("berlin", "DE")]))
        (learner,) = edge.learners()
        resource.prlimit(learner, resource.RLIMIT_NOFILE, (512, 512))
        stack.enter_context(flood(edge.address, 600))
        wait_for(lambda: status(edge).limit_hits.get(UNIDENTIFIED, {}).get("connections", 0) > 100, "the limit")
        teach(edge, 2, seed=1)
        assert edge.learners() == [learner]
        assert len(os.listdir(f"/proc/{learner}/fd")) < 400
        shown = metrics(edge)
        assert value(shown, "alphaedge_peer_limit_hits_total", peer=UNIDENTIFIED, limit="connections") > 100
