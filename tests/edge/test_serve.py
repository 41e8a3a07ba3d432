"""A real edge in its own processes: real clients, real feedback, and kill -9 at any moment."""

import datetime as dt
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
import tritonclient.http as triton

from alphaedge.edge.authority import Folder
from alphaedge.edge.config import load
from alphaedge.edge.journal import Journal
from alphaedge.edge.learner import Learner
from alphaedge.edge.learning import Learning, learned_so_far

BATCH, EVERY = 10, 4
CONFIG: dict[str, Any] = {
    "edge": "berlin",
    "region": "DE",
    "secret": "secret",
    "model": {
        "name": "shop",
        "builtin": "deepfm",
        "batch_size": BATCH,
        "rate": 0.01,
        "fields": [
            {"name": "user", "kind": "id", "size": 500},
            {"name": "item", "kind": "id", "size": 500},
            {"name": "x", "kind": "number", "size": 2},
        ],
    },
    "method": {"aggregate_every": EVERY, "gather": 2},
    "serve": {"port": 0},
}


class Edge:
    """An edge that is started, asked, told, killed and started again."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder, self.path = folder, folder / "edge.toml"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "secret").write_text("a secret of the fleet")
        self.path.write_text(tomli_w.dumps(CONFIG | changes))
        self.has_peers = "certificate" in changes.get("peers", {})
        self.process: subprocess.Popen[str] | None = None
        self.url = self.address = ""

    def start(self) -> None:
        self.url = self.address = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "alphaedge", "edge", "serve", "--config", str(self.path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        while not self.url or (self.has_peers and not self.address):
            line = self.process.stdout.readline()
            assert line, "the edge has ended"
            if "serves on" in line:
                self.url = line.split()[-1]
            if "talks to its peers on" in line:
                self.address = line.split()[-1].removeprefix("https://")
        wait_for(self.ready, "the edge to be ready")

    def ready(self) -> bool:
        try:
            return bool(self.get("/v2/health/ready")["ready"])
        except (urllib.error.URLError, ConnectionError):
            return False

    def get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return dict(json.load(answer))

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            return {"status": error.code, **json.load(error)}

    def predict(self, users: list[str], items: list[int], x: list[list[float]]) -> tuple[list[float], list[int]]:
        inputs = [
            {"name": "user", "shape": [len(users)], "datatype": "BYTES", "data": users},
            {"name": "item", "shape": [len(items)], "datatype": "INT64", "data": items},
            {"name": "x", "shape": [len(x), 2], "datatype": "FP32", "data": x},
        ]
        answer = self.post("/v2/models/shop/infer", {"inputs": inputs})
        found = {o["name"]: o["data"] for o in answer["outputs"]}
        return found["prediction"], found["prediction_id"]

    def learners(self) -> list[int]:
        """Processes that the edge has started."""
        assert self.process is not None
        return [int(p) for p in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def kill(self) -> None:
        """kill -9 of the server; its learner ends when it notices."""
        assert self.process is not None
        learners = self.learners()
        self.process.kill()
        self.process.wait()
        for learner in learners:
            wait_for(lambda learner=learner: not Path(f"/proc/{learner}").exists(), "the learner to end")  # type: ignore[misc]

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=30)


def wait_for(condition: Any, what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    made = Edge(tmp_path / "edge")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def events(count: int, seed: int = 0) -> list[tuple[str, int, list[float], float]]:
    """Users who like even items."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        item = rng.randrange(20)
        liked = rng.random() < (0.9 if item % 2 == 0 else 0.1)
        found.append((f"u{rng.randrange(30)}", item, [rng.gauss(0, 1), rng.gauss(0, 1)], float(liked)))
    return found


def send(edge: Edge, some: list[tuple[str, int, list[float], float]]) -> list[tuple[int, float]]:
    _, ids = edge.predict([e[0] for e in some], [e[1] for e in some], [e[2] for e in some])
    return list(zip(ids, [e[3] for e in some], strict=True))


def tell(edge: Edge, told: list[tuple[int, float]]) -> dict[str, Any]:
    return edge.post("/v2/models/shop/feedback", {"ids": [i for i, _ in told], "labels": [y for _, y in told]})


def test_an_edge_learns_from_feedback_what_to_predict(edge: Edge) -> None:
    edge.start()
    first, _ = edge.predict(["new", "new"], [2, 3], [[0.0, 0.0]] * 2)
    assert abs(first[0] - first[1]) < 0.05
    told = send(edge, events(50 * BATCH))
    random.Random(1).shuffle(told)
    assert tell(edge, told)["accepted"] == len(told)
    last = 50 // EVERY * EVERY * BATCH
    wait_for(lambda: learned_so_far(edge.folder / "data") == last, "the learner to have learned")
    even, odd = edge.predict(["new", "new"], [2, 3], [[0.0, 0.0]] * 2)[0]
    assert even > odd + 0.3
    assert edge.stop() == 0
    assert not list((edge.folder / "data").rglob("*.part"))


def test_a_client_that_nobody_here_wrote_works_as_it_is(edge: Edge) -> None:
    edge.start()
    client = triton.InferenceServerClient(edge.url.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shop")
    assert client.is_model_ready("shop", "1")
    assert client.get_server_metadata()["name"] == "alphaedge"
    about = client.get_model_metadata("shop")
    assert [i["name"] for i in about["inputs"]] == ["user", "item", "x"]
    for binary in (True, False):
        arrays = {
            "user": (np.array([b"ann", b"bob"], dtype=object), "BYTES"),
            "item": (np.array([1, 2]), "INT64"),
            "x": (np.ones((2, 2), np.float32), "FP32"),
        }
        inputs = []
        for name, (array, kind) in arrays.items():
            inputs.append(triton.InferInput(name, list(array.shape), kind))
            inputs[-1].set_data_from_numpy(array, binary_data=binary)
        every = client.infer("shop", inputs, request_id="r")
        assert every.as_numpy("prediction").shape == (2,)
        assert every.as_numpy("prediction_id").dtype == np.int64
        asked = [triton.InferRequestedOutput("prediction", binary_data=binary)]
        one = client.infer("shop", inputs, outputs=asked)
        assert one.as_numpy("prediction").tolist() == every.as_numpy("prediction").tolist()
        assert one.as_numpy("prediction_id") is None
    with pytest.raises(triton.InferenceServerException, match="also user"):
        client.infer("shop", inputs[1:])


def test_bad_requests_are_refused_by_name_and_nothing_else_happens(edge: Edge) -> None:
    edge.start()
    good = send(edge, events(3))
    for path, body, status, words in (
        ("/v2/models/shop/infer", b"nonsense", 400, "inference request"),
        ("/v2/models/shop/infer", {"inputs": []}, 400, "also user"),
        ("/v2/models/other/infer", {"inputs": []}, 404, "Not Found"),
        ("/v2/models/shop/infer", b" " * 10_000_001, 413, "at most 10000000"),
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


def test_a_token_keeps_strangers_out(tmp_path: Path) -> None:
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


def kills(edge: Edge, count: int, seed: int) -> None:
    """Predictions and feedback while the server, the learner or both are killed at random moments."""
    rng = random.Random(seed)
    edge.start()
    acknowledged: dict[int, float] = {}
    waiting: list[tuple[int, float]] = []
    stream = iter(events(10**6, seed))
    for _ in range(count):
        for _ in range(rng.randint(1, 8)):
            waiting += send(edge, [next(stream) for _ in range(rng.randint(1, 25))])
            rng.shuffle(waiting)
            some, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
            if some:
                assert tell(edge, some)["accepted"] == len(some)
                acknowledged |= dict(some)
        which = rng.choice(["server", "learner", "both"])
        if which in ("learner", "both"):
            for learner in edge.learners():
                os.kill(learner, signal.SIGKILL)
        if which in ("server", "both"):
            edge.kill()
            edge.start()
    assert tell(edge, waiting)["accepted"] == len(waiting)
    acknowledged |= dict(waiting)
    periods = len(acknowledged) // (BATCH * EVERY)
    wait_for(lambda: learned_so_far(edge.folder / "data") >= periods * BATCH * EVERY, "the learner to catch up")
    assert edge.stop() == 0
    journal = Journal(edge.folder / "data" / "journal.db")
    lessons = dict(journal._db.execute("select prediction, label from feedback"))
    journal.close()
    assert lessons == acknowledged, "all that was acknowledged, once, and nothing else"


def state(folder: Path) -> dict[str, torch.Tensor]:
    learning = Learning(load(folder / "edge.toml"), folder)
    while learning.alone():
        pass
    learner = learning.learner
    assert learner.home is not None
    return {
        "dense": learner.fleet.dense,
        "m": learner.fleet.dense_m,
        "home": learner.home.dense,
        "rows": learner.fleet.tables[0].value,
        "keys": torch.tensor(learner.tables[1].numbering.by_row()),
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
    authority = Folder(tmp_path / "certs")
    now = dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=100)
    (tmp_path / "policy").write_text("")
    made: list[Edge] = []
    try:
        for edge, region in (("berlin", "DE"), ("boston", "US"), ("beijing", "CN")):
            authority.issue(edge, region, ["127.0.0.1"], now=now, days=50)
            folder = tmp_path / edge
            peers = {
                "port": 0,
                "seeds": [made[0].address] if made else [],
                "certificate": f"../certs/{edge}.pem",
                "key": f"../certs/{edge}.key",
                "authority": "../certs/ca.pem",
            }
            made.append(Edge(folder, edge=edge, region=region, peers=peers, policy="../policy"))
            made[-1].start()
        yield made
    finally:
        for one in made:
            if one.process is not None and one.process.poll() is None:
                one.process.kill()
                one.process.wait()


def restored(edge: Edge) -> Learner:
    """The learner as its newest checkpoint has it."""
    again = edge.folder.with_name(edge.folder.name + "-copy")
    shutil.rmtree(again, ignore_errors=True)
    shutil.copytree(edge.folder, again, ignore=shutil.ignore_patterns("parameters*"))
    return Learning(load(again / "edge.toml"), again).learner


def teach(edge: Edge, periods: int, seed: int) -> None:
    """Whole periods of outcomes, learned to the end."""
    before = learned_so_far(edge.folder / "data")
    count = periods * BATCH * EVERY
    assert tell(edge, send(edge, events(count, seed)))["accepted"] == count
    wait_for(lambda: learned_so_far(edge.folder / "data") == before + count, f"{edge.folder.name} to have learned")


def test_edges_find_each_other_and_learn_from_each_other(fleet: list[Edge], tmp_path: Path) -> None:
    berlin, boston, beijing = fleet
    for round_ in range(3):
        for number, edge in enumerate(fleet):
            teach(edge, 2, seed=10 * round_ + number)
    learner = restored(berlin)
    assert set(learner.links.neighbours) == {"boston", "beijing"}
    assert {j for j, held in learner.held.items() if held.number > 0} == {"boston", "beijing"}
    assert all(held.has[1].any() for held in learner.held.values()), "rows of common items were fetched"
    # A rule that closes one link, while everybody runs.
    (tmp_path / "policy").write_text("deny from=CN to=US\n")
    assert "beijing" in restored(boston).links.neighbours
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
    assert torch.equal(learner.fleet.dense[0], theirs.dense)
