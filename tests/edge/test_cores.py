"""The server and the learner share all cores, or the learner has one of its own."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaedge.edge.cores import assign_cores, separate_cores
from alphaedge.errors import InvalidValue

from .processes import BATCH, EVERY, Edge, events, send, tell, wait_for

many = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


def cores_of_threads(process: int) -> set[frozenset[int]]:
    """The sets of cores that its threads may run on."""
    found = set()
    for thread in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            found.add(frozenset(os.sched_getaffinity(int(thread.name))))
    return found


@given(st.sets(st.integers(0, 1000), min_size=2))
def test_separate_cores_give_the_learner_one_core_and_the_server_the_others(available: set[int]) -> None:
    cores = separate_cores(available)
    assert cores.server | cores.learner == available
    assert not cores.server & cores.learner
    assert len(cores.learner) == 1


def test_a_single_core_cannot_be_divided() -> None:
    with pytest.raises(InvalidValue, match=r"serve\.cores.*separate.*shared"):
        separate_cores([3])
    assert assign_cores("shared") is None


@many
def test_server_and_learner_stay_on_separate_cores_even_after_a_restart(tmp_path: Path) -> None:
    edge = Edge(tmp_path, serve={"port": 0, "cores": "separate"})
    cores = separate_cores(os.sched_getaffinity(0))
    edge.start()
    try:
        assert edge.process is not None
        tell(edge, send(edge, events(BATCH * EVERY)))  # it has all its threads once it has written and learned
        assert cores_of_threads(edge.process.pid) == {cores.server}
        (first,) = edge.learners()
        assert cores_of_threads(first) == {cores.learner}
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: edge.learners() not in ([], [first]), "another learner")
        wait_for(lambda: cores_of_threads(edge.learners()[0]) == {cores.learner}, "the learner to be on its core")
        assert edge.stop() == 0
    finally:
        edge.end()


@many
def test_by_default_both_may_use_all_cores(edge: Edge) -> None:
    edge.start()
    assert edge.process is not None
    everything = {frozenset(os.sched_getaffinity(0))}
    assert cores_of_threads(edge.process.pid) == everything
    assert cores_of_threads(edge.learners()[0]) == everything


def test_check_prints_the_cores_or_why_they_cannot_be_separated(tmp_path: Path) -> None:
    edge = Edge(tmp_path, serve={"port": 0, "cores": "separate"})
    command = [sys.executable, "-m", "alphaedge", "edge", "check", "--config", str(edge.path)]
    one = min(os.sched_getaffinity(0))
    alone = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    assert alone.returncode == 2, alone.stdout + alone.stderr
    assert "serve.cores" in alone.stderr
    if len(os.sched_getaffinity(0)) > 1:
        found = subprocess.run(command, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
        assert f"cores: {separate_cores(os.sched_getaffinity(0))}" in found.stdout
