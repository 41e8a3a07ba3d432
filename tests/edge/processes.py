"""Real edges in processes of their own, for tests."""

import contextlib
import datetime as dt
import json
import random
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from alphaedge.edge.config import load
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.trust.authority import CertificateFolder

from .forks import ForkedProcess, can_fork

BATCH, EVERY = 10, 4
WAIT_SECONDS, REQUEST_SECONDS = 120.0, 60.0
# Tests run on machines whose cores are never idle: an idle learner would starve there.
SERVE: dict[str, Any] = {"port": 0, "learner_priority": "normal"}
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
    # A peer's model is not put on trial on twenty examples; that and pulls ahead have tests of their own.
    "method": {"aggregate_every": EVERY, "weight_batches": 2, "pull_ahead": 0, "trial": False},
}


class Edge:
    """An edge that a test starts, calls, kills and starts again.

    program: its module and first arguments. changes: to its configuration.
    """

    def __init__(self, folder: Path, *, program: Sequence[str] = ("alphaedge",), **changes: Any) -> None:
        self.program = program
        self.folder, self.path = folder, folder / "edge.toml"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "secret").write_text("a secret of the fleet")
        config = CONFIG | changes | {"serve": SERVE | changes.get("serve", {})}
        self.path.write_text(tomli_w.dumps({name: value for name, value in config.items() if value is not None}))
        self.has_peers = "certificate" in changes.get("peers", {})
        self.process: subprocess.Popen[str] | ForkedProcess | None = None
        self.url = self.address = ""

    def start(self) -> None:
        self.url = self.address = ""
        words = [*self.program, "edge", "serve", "--config", str(self.path)]
        if can_fork():
            self.process = ForkedProcess(words)
        else:
            self.process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        while not self.url or (self.has_peers and not self.address):
            line = self.process.stdout.readline()
            assert line, "the edge has exited"
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
        with urllib.request.urlopen(self.url + path, timeout=REQUEST_SECONDS) as answer:
            return dict(json.load(answer))

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
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
        assert "outputs" in answer, answer
        found = {o["name"]: o["data"] for o in answer["outputs"]}
        return found["prediction"], found["prediction_id"]

    def learners(self) -> list[int]:
        """The ids of the processes that the edge has started."""
        assert self.process is not None
        return [int(p) for p in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait for its learner to end."""
        assert self.process is not None
        learners = self.learners()
        self.process.kill()
        self.process.wait()
        for learner in learners:
            wait_for(lambda learner=learner: not Path(f"/proc/{learner}").exists(), "the learner to end")  # type: ignore[misc]

    def end(self) -> None:
        """Kill it if it still runs, at the end of a test."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=WAIT_SECONDS)


def wait_for(condition: Callable[[], object], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait until a condition holds. seconds: enough for a busy machine; a test that passes does not wait for them."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def events(count: int, seed: int = 0) -> list[tuple[str, int, list[float], float]]:
    """Events of users who like even items: user, item, numbers and label."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        item = rng.randrange(20)
        liked = rng.random() < (0.9 if item % 2 == 0 else 0.1)
        found.append((f"u{rng.randrange(30)}", item, [rng.gauss(0, 1), rng.gauss(0, 1)], float(liked)))
    return found


def send(edge: Edge, some: list[tuple[str, int, list[float], float]]) -> list[tuple[int, float]]:
    """Request predictions of events; return their ids and labels."""
    _, ids = edge.predict([e[0] for e in some], [e[1] for e in some], [e[2] for e in some])
    return list(zip(ids, [e[3] for e in some], strict=True))


def tell(edge: Edge, labels: list[tuple[int, float]]) -> dict[str, Any]:
    """Send feedback: labels by prediction id."""
    return edge.post("/v2/models/shop/feedback", {"ids": [i for i, _ in labels], "labels": [y for _, y in labels]})


@contextlib.contextmanager
def fleet_of(
    tmp_path: Path,
    names_and_regions: Sequence[tuple[str, str]],
    programs: Mapping[str, Sequence[str]] = {},
    **changes: Any,
) -> Iterator[list[Edge]]:
    """Run the edges of one fleet, each in its region and folder, with a common policy file.

    The first is the seed of the others. programs: of edges that run another one than the honest.
    changes: to the configuration of each; those to ``peers`` are added to it.
    """
    authority = CertificateFolder(tmp_path / "certs")
    now = dt.datetime.now(dt.UTC)
    authority.init("shops", now=now, days=100)
    (tmp_path / "policy").write_text("")
    made: list[Edge] = []
    try:
        for edge, region in names_and_regions:
            authority.issue(edge, region, ["127.0.0.1"], now=now, days=50)
            peers = {
                "port": 0,
                "seeds": [made[0].address] if made else [],
                "certificate": f"../certs/{edge}.pem",
                "key": f"../certs/{edge}.key",
                "authority": "../certs/ca.pem",
            } | changes.get("peers", {})
            own = {"policy": "../policy"} | changes | {"edge": edge, "region": region, "peers": peers}
            made.append(Edge(tmp_path / edge, program=programs.get(edge, ("alphaedge",)), **own))
            made[-1].start()
        yield made
    finally:
        for one in made:
            one.end()


def restored(edge: Edge) -> Learner:
    """Restore the learner of an edge from its newest checkpoint and its journal."""
    again = edge.folder.with_name(edge.folder.name + "-copy")
    shutil.rmtree(again, ignore_errors=True)
    shutil.copytree(edge.folder, again, ignore=shutil.ignore_patterns("parameters*"))
    return LearningLoop(load(again / "edge.toml"), again).learner


def teach(edge: Edge, periods: int, seed: int) -> None:
    """Send the events and the feedback of whole aggregation periods, and wait until they are learned."""
    before = read_learned_mark(edge.folder / "data").newest
    count = periods * BATCH * EVERY
    assert tell(edge, send(edge, events(count, seed)))["accepted"] == count
    wait_for(
        lambda: read_learned_mark(edge.folder / "data").newest == before + count, f"{edge.folder.name} to have learned"
    )
