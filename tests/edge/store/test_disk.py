"""Faults of the machine: full disks, damaged files, clocks that jump, and a stop amid work."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaedge.edge.config import load
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.serving.service import PredictionService
from alphaedge.edge.store.clock import steady_clock
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.lock import Lock

from ..hostile import EdgeLog, small_disk, status
from ..processes import BATCH, EVERY, Edge, events, send, teach, tell, wait_for


def feedback_in_journal(edge: Edge) -> dict[int, float]:
    """Read all labels in the journal, by prediction id."""
    with contextlib.closing(sqlite3.connect(edge.folder / "data" / "journal.db")) as db:
        return dict(db.execute("select prediction, label from feedback"))


def start_again(edge: Edge, edge_log: EdgeLog, aggregations: int) -> None:
    """Start an edge, and wait until its learner has caught up."""
    now = time.time()
    with edge_log.capture():
        edge.start()
    wait_for(
        lambda: status(edge).started > now and status(edge).aggregations == aggregations, "the learner to catch up"
    )


def outputs(edge: Edge) -> list[float]:
    return edge.predict(["u1", "u2", "nobody"], [2, 3, 4], [[0.5, -0.5]] * 3)[0]


INPUTS = [
    {"name": "user", "shape": [50], "datatype": "BYTES", "data": ["ann"] * 50},
    {"name": "item", "shape": [50], "datatype": "INT64", "data": list(range(50))},
    {"name": "x", "shape": [50, 2], "datatype": "FP32", "data": [0.5] * 100},
]


def test_a_full_disk_is_reported_and_nothing_acknowledged_is_lost(edge: Edge) -> None:
    data = edge.folder / "data"
    with small_disk(data, 16):
        edge.start()
        told = send(edge, events(BATCH * EVERY))
        assert tell(edge, told)["accepted"] == len(told)
        waiting = send(edge, events(BATCH * EVERY, seed=1))
        balloon = data / "balloon"
        with contextlib.suppress(OSError), balloon.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

        answers: list[dict[str, Any]] = []

        def refused() -> bool:
            """Whether a caller is refused and the edge is not ready."""
            answers.append(edge.post("/v2/models/shop/infer", {"inputs": INPUTS}))
            return "error" in answers[-1] and not edge.ready()

        wait_for(refused, "the disk to be full")
        assert answers[-1]["status"] == 503
        assert "journal.db" in answers[-1]["error"]
        assert edge.get("/v2/health/live")["live"]
        full = tell(edge, waiting)
        assert full.get("status") == 503 or full["accepted"] == len(waiting)
        balloon.unlink()
        wait_for(edge.ready, "the edge to be ready again")
        again = tell(edge, waiting)
        assert again["accepted"] + again["known"] == len(waiting)
        more = send(edge, events(BATCH * EVERY, seed=2))
        assert tell(edge, more)["accepted"] == len(more)
        wait_for(lambda: read_learned_mark(data).newest == 3 * BATCH * EVERY, "all of it to be learned")
        assert edge.stop() == 0
        assert dict(told + waiting + more).items() <= feedback_in_journal(edge).items()
        edge.end()


@pytest.mark.parametrize("damaged", [1, 2], ids=["the newest", "all"])
def test_damaged_checkpoints_are_reported_and_the_journal_makes_up_for_them(
    edge: Edge, edge_log: EdgeLog, damaged: int
) -> None:
    edge.start()
    for seed in range(3):
        teach(edge, 1, seed)
    before = outputs(edge)
    edge.kill()
    checkpoints = sorted((edge.folder / "data" / "checkpoints").glob("*.safetensors"))
    assert len(checkpoints) == 2
    for path in checkpoints[-damaged:]:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    half_written = checkpoints[-1].with_suffix(".part")
    half_written.write_bytes(checkpoints[0].read_bytes()[:1000])  # and it was killed while it wrote another
    start_again(edge, edge_log, 3)
    assert outputs(edge) == before
    reasons = edge_log.reasons(event="checkpoint_refused")
    assert [str(p) in reason for p, reason in zip(reversed(checkpoints), reasons, strict=False)] == [True] * damaged
    teach(edge, 1, seed=9)
    assert edge.stop() == 0
    assert {p.name for p in edge.folder.rglob("*.part")} <= {"spare.part"}
    assert not edge_log.events(process="server", level="warning"), "the learner has not died"


def test_a_damaged_checkpoint_costs_nothing_though_the_journal_drops_old_feedback(
    tmp_path: Path, edge_log: EdgeLog
) -> None:
    edge = Edge(tmp_path / "edge", feedback={"window_seconds": 2.0})
    edge.start()
    try:
        for seed in range(3):
            teach(edge, 1, seed)
        wait_for(lambda: len(feedback_in_journal(edge)) < 3 * BATCH * EVERY, "the journal to drop old feedback")
        before = outputs(edge)
        edge.kill()
        newest = max((edge.folder / "data" / "checkpoints").glob("*.safetensors"))
        newest.write_bytes(newest.read_bytes()[:-100])
        start_again(edge, edge_log, 3)
        assert outputs(edge) == before
    finally:
        edge.end()


def test_a_torn_end_of_the_journal_is_dropped_and_the_rest_is_kept(edge: Edge) -> None:
    edge.start()
    told = send(edge, events(BATCH * EVERY))
    assert tell(edge, told)["accepted"] == len(told)
    edge.kill()
    log = edge.folder / "data" / "journal.db-wal"
    assert log.stat().st_size > 0, "the feedback is nowhere else yet"
    with log.open("ab") as file:
        file.write(os.urandom(6000))  # the beginning of a commit that was not acknowledged
    edge.start()
    assert feedback_in_journal(edge) == dict(told)
    teach(edge, 1, seed=1)
    assert edge.stop() == 0


@pytest.mark.parametrize("page", [0, 1], ids=["the first page", "all other pages"])
def test_a_journal_of_garbage_is_an_error_that_names_it(edge: Edge, page: int) -> None:
    edge.start()
    teach(edge, 1, seed=0)
    assert edge.stop() == 0
    path = edge.folder / "data" / "journal.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)")  # so that the log can't repair it
    content = bytearray(path.read_bytes())
    where = slice(0, 4096) if page == 0 else slice(4096, None)
    content[where] = os.urandom(len(content[where]))
    path.write_bytes(content)
    command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--config", str(edge.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "journal.db" in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == content, "it is not replaced by a new journal"


def test_a_clock_that_jumps_expires_no_prediction(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge", feedback={"window_seconds": 0.1})
    wall, ticks = [1_700_000_000.0], [0.0]
    config = load(edge.path)
    inputs = {"user": np.array([1]), "item": np.array([1]), "x": np.zeros((1, 2), np.float32)}

    async def run(jump: float) -> None:
        service = PredictionService(
            config, edge.folder, lambda j: steady_clock(lambda: wall[0], lambda: ticks[0], j.latest_time())
        )
        LearningLoop(config, edge.folder)  # hands parameters over
        await service.predict(inputs)
        ticks[0] += 1.0  # longer than the window
        (waiting,), _ = await service.predict(inputs)
        wall[0] += jump
        before = service.journal.expired()
        cleaning = asyncio.create_task(service.clean_up_forever())
        while service.journal.expired() == before:
            await asyncio.sleep(0.01)
        assert (await service.feedback([waiting], [1.0])).accepted == 1
        cleaning.cancel()
        service.close()

    for jump in (86_400.0, -86_400.0, -86_400.0, 86_400.0):  # each time with a new service
        asyncio.run(asyncio.wait_for(run(jump), 60))


def test_two_edges_do_not_share_a_folder(edge: Edge) -> None:
    edge.start()
    command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--config", str(edge.path)]
    again = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert again.returncode == 2
    assert "another edge runs with this data folder" in again.stderr
    assert edge.ready()


def test_a_learner_waits_for_the_previous_one(edge: Edge) -> None:
    """The learner of a killed server may run for a moment longer, while a new edge starts."""
    edge.start()
    teach(edge, 2, seed=1)
    assert edge.stop() == 0
    shutil.rmtree(edge.folder / "data" / "parameters")
    lock = Lock(edge.folder / "data" / "learner.lock")  # as if it were still running
    command = [sys.executable, "-m", "alphaedge", "edge", "serve", "--config", str(edge.path)]
    with contextlib.ExitStack() as before, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as again:
        before.callback(lock.close)
        try:
            assert again.stdout is not None
            edge.url = again.stdout.readline().split()[-1]
            edge.process = again
            wait_for(lambda: len(edge.learners()) == 1, "the new learner to start")
            assert not edge.ready()
            before.close()
            wait_for(edge.ready, "the new learner to run")
        finally:
            again.terminate()


def test_the_learner_of_a_killed_server_dies_even_if_it_gets_no_time_to_notice(edge: Edge) -> None:
    edge.start()
    (learner,) = edge.learners()
    assert edge.process is not None
    os.kill(learner, signal.SIGSTOP)
    edge.process.kill()
    edge.process.wait()
    wait_for(lambda: not Path(f"/proc/{learner}").exists(), "the learner to be gone")


def test_a_stop_amid_work_loses_nothing(edge: Edge) -> None:
    edge.start()
    acknowledged: dict[int, float] = {}
    busy = threading.Event()

    def call(seed: int) -> None:
        with contextlib.suppress(OSError):
            for number in itertools.count():
                told = send(edge, events(20, 1000 * seed + number))
                if tell(edge, told).get("accepted") == len(told):
                    acknowledged.update(told)
                if number == 5:
                    busy.set()

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    assert busy.wait(60)
    assert edge.stop() == 0
    for caller in callers:
        caller.join(60)
    assert acknowledged.items() <= feedback_in_journal(edge).items()
