"""A real edge in its own processes: real feedback, and kill -9 at any moment."""

import os
import random
import shutil
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w
import torch

from alphaedge.edge.config import load
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.status import read_learner_status

from .processes import BATCH, EVERY, Edge, events, fleet_of, restored, send, teach, tell, wait_for
from .storm import Caller, kill_one


def test_an_edge_learns_from_feedback_what_to_predict(edge: Edge) -> None:
    edge.start()
    first, _ = edge.predict(["new", "new"], [2, 3], [[0.0, 0.0]] * 2)
    assert abs(first[0] - first[1]) < 0.05
    labels = send(edge, events(50 * BATCH))
    random.Random(1).shuffle(labels)
    assert tell(edge, labels)["accepted"] == len(labels)
    last = 50 // EVERY * EVERY * BATCH
    wait_for(lambda: read_learned_mark(edge.folder / "data").newest == last, "the learner to have learned")
    even, odd = edge.predict(["new", "new"], [2, 3], [[0.0, 0.0]] * 2)[0]
    assert even > odd + 0.3
    assert edge.stop() == 0
    assert {p.name for p in (edge.folder / "data").rglob("*.part")} <= {"spare.part"}


def test_bad_requests_are_refused_by_name_and_nothing_else_happens(edge: Edge) -> None:
    edge.start()
    good = send(edge, events(3))
    for path, body, status, words in (
        ("/v2/models/shop/infer", b"nonsense", 400, "inference request"),
        ("/v2/models/shop/infer", {"inputs": []}, 400, "also user"),
        ("/v2/models/other/infer", {"inputs": []}, 404, "Not Found"),
        ("/v2/models/shop/infer", b" " * 500_001, 413, "at most 500000 (serve.max_json_bytes)"),
        ("/v2/models/shop/feedback", b"{", 400, "ids and labels"),
        ("/v2/models/shop/feedback", {"ids": [1], "labels": []}, 400, "one label for each id"),
        ("/v2/models/shop/feedback", {"ids": [1], "labels": [0.5]}, 400, "0 or 1"),
        ("/v2/models/shop/feedback", {"ids": [-1], "labels": [1]}, 400, "ids of predictions"),
        ("/v2/models/shop/feedback", {"ids": [1], "labels": [1], "x": 2}, 400, "x"),
        ("/v2/models/shop/feedback", {"ids": [2**70], "labels": [1]}, 400, "ids"),
    ):
        found = edge.post(path, body)  # type: ignore[arg-type]
        assert found["status"] == status, (path, found)
        assert words in found["error"]
    assert tell(edge, good)["accepted"] == 3
    assert tell(edge, good) == {"accepted": 0, "known": 3, "expired": 0, "unknown": 0}


def test_callers_need_the_token(tmp_path: Path) -> None:
    edge = Edge(tmp_path, serve={"port": 0, "token": "token"})
    (tmp_path / "token").write_text("s3cret\n")
    edge.start()
    try:
        body = {"ids": [1], "labels": [1.0]}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret"}):
            assert edge.post("/v2/models/shop/feedback", body, **headers)["status"] == 401
        found = edge.post("/v2/models/shop/feedback", body, Authorization="Bearer s3cret")
        assert found["unknown"] == 1
    finally:
        edge.stop()


def test_a_learner_that_starts_again_has_the_configuration_that_the_edge_was_started_with(edge: Edge) -> None:
    edge.start()
    teach(edge, 1, seed=1)
    raw = tomllib.loads(edge.path.read_text())
    raw["model"]["hidden"] = [16]
    edge.path.write_text(tomli_w.dumps(raw))
    (learner,) = edge.learners()
    os.kill(learner, signal.SIGKILL)
    teach(edge, 1, seed=2)
    assert edge.learners() not in ([], [learner])
    assert len(send(edge, events(1))) == 1, "predictions go on, from what this learner hands over"
    assert edge.ready()


def kills(edge: Edge, count: int, seed: int) -> None:
    """Predictions and feedback while the server, the learner or both are killed at random moments."""
    rng = random.Random(seed)
    edge.start()
    caller = Caller(edge, rng)
    for _ in range(count):
        for _ in range(rng.randint(1, 8)):
            caller.call()
        kill_one(edge, rng)
    caller.finish(BATCH * EVERY)
    assert edge.stop() == 0
    caller.check_journal()


def state(folder: Path) -> dict[str, torch.Tensor]:
    learning = LearningLoop(load(folder / "edge.toml"), folder)
    while learning.step_alone():
        pass
    learner = learning.learner
    assert learner.home is not None
    return {
        "dense": learner.mixed.dense,
        "m": learner.mixed.dense_m,
        "home": learner.home.dense,
        "rows": learner.mixed.tables[0].value,
        "keys": torch.tensor(learner.tables[1].numbering.keys_by_row()),
        "records": torch.tensor(learner.records),
    }


def check_recovery(edge: Edge, tmp_path: Path, count: int, seed: int) -> None:
    kills(edge, count, seed)
    again = tmp_path / "again"
    shutil.copytree(edge.folder, again)
    shutil.rmtree(again / "data" / "checkpoints")  # everything from the journal alone, in one go
    one, two = state(edge.folder), state(again)
    for name in one:
        assert torch.equal(one[name], two[name]), name


def test_after_kill_9_nothing_is_lost_or_learned_twice(edge: Edge, tmp_path: Path) -> None:
    check_recovery(edge, tmp_path, count=3, seed=3)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_twenty_kills_leave_the_state_of_an_undisturbed_run(edge: Edge, tmp_path: Path) -> None:
    check_recovery(edge, tmp_path, count=20, seed=0)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[list[Edge]]:
    """Three edges of one fleet, each in its region."""
    with fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US"), ("beijing", "CN")]) as made:
        yield made


def neighbours(edge: Edge) -> list[str]:
    """The neighbours of an edge, as its learner reports them."""
    status = read_learner_status(edge.folder / "data" / "status.json")
    assert status is not None
    return [name for name, peer in status.peers.items() if peer.neighbour]


def test_edges_find_each_other_and_learn_from_each_other(fleet: list[Edge], tmp_path: Path) -> None:
    berlin, boston, beijing = fleet
    for round_ in range(3):
        for number, edge in enumerate(fleet):
            teach(edge, 2, seed=10 * round_ + number)
    learner = restored(berlin)
    assert set(learner.links.neighbours) == {"boston", "beijing"}
    assert {j for j, held in learner.held.items() if held.number > 0} == {"boston", "beijing"}
    assert all(held.has[1].any() for held in learner.held.values()), "rows of common items were pulled"
    # A rule that closes one link, while everybody runs.
    assert "beijing" in restored(boston).links.neighbours
    (tmp_path / "policy").write_text("deny from=CN to=US\n")
    wait_for(lambda: "beijing" not in neighbours(boston), "boston to drop beijing")
    for round_ in range(3):
        for place, edge in enumerate(fleet):
            teach(edge, 2, seed=100 + 10 * round_ + place)
    learner = restored(boston)
    assert learner.links.neighbours == ["berlin"]
    assert learner.links.known["beijing"].weight < 0.1, "what was 0 comes back very slowly, for a link that opens again"
    assert "beijing" not in learner.held
    assert "boston" in restored(beijing).links.neighbours, "the other way is open"
    # One that dies is missed, and the others go on.
    beijing.kill()
    teach(berlin, 3, seed=7)
    learner = restored(berlin)
    assert learner.records > 0
    assert all(edge.stop() == 0 for edge in (berlin, boston))


def test_a_new_edge_starts_from_a_peers_model(fleet: list[Edge], tmp_path: Path) -> None:
    berlin, boston, _ = fleet
    teach(berlin, 3, seed=1)
    boston.kill()
    shutil.rmtree(boston.folder / "data")
    boston.start()
    wait_for(lambda: any((boston.folder / "data" / "checkpoints").glob("*.safetensors")), "boston to start from a peer")
    learner, theirs = restored(boston), restored(berlin).publication
    assert learner.records == 0
    assert torch.equal(learner.mixed.dense[0], theirs.dense)
