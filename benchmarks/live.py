"""Real edges in processes of their own, for benchmarks, and requests for them."""

import datetime as dt
import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, final

import tomli_w

from alphaedge.edge.config import load
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.parameters import ParameterReader
from alphaedge.edge.trust.authority import CertificateFolder

NAME = "shop"
INFER, FEEDBACK = f"/v2/models/{NAME}/infer", f"/v2/models/{NAME}/feedback"
USERS, ITEMS, OCCUPATIONS, AGES, NUMBERS = 6040, 3931, 21, 7, 4
MODEL: dict[str, Any] = {  # a DeepFM of the size that MovieLens needs, as in common.deepfm_shape
    "name": NAME,
    "builtin": "deepfm",
    "hidden": [64, 32],
    "fields": [
        {"name": "user", "kind": "id", "size": USERS},
        {"name": "item", "kind": "id", "size": ITEMS},
        {"name": "occupation", "kind": "code", "size": OCCUPATIONS},
        {"name": "age", "kind": "code", "size": AGES},
        {"name": "numbers", "kind": "number", "size": NUMBERS},
    ],
}
SECRET = "a secret of the benchmark"


def start_process(words: Sequence[str]) -> subprocess.Popen[str]:
    """Start ``python -m`` with these words."""
    return subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True)


@final
class Edge:
    """``alphaedge edge serve`` as a context manager."""

    def __init__(self, folder: Path, *, batch: int = 50, every: int = 20, **changes: Any) -> None:
        self.folder, self.batch, self.every = folder, batch, every
        folder.mkdir(parents=True)
        (folder / "secret").write_text(SECRET)
        config = {
            "edge": "berlin",
            "region": "DE",
            "secret": "secret",
            "model": {**MODEL, "batch_size": batch},
            "method": {"aggregate_every": every},
            "serve": {"port": 0},
        }
        (folder / "edge.toml").write_text(tomli_w.dumps(config | changes))
        self._peers = "peers" in changes
        self._process: subprocess.Popen[str] | None = None
        self.address = self.peer_address = ""

    def __enter__(self) -> Self:
        self._process = start_process(["alphaedge", "edge", "serve", "--config", str(self.folder / "edge.toml")])
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_ready(self) -> None:
        """Read its addresses, and wait until it is ready."""
        assert self._process is not None
        assert self._process.stdout is not None
        while not self.address or (self._peers and not self.peer_address):
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"{self.folder}: the edge has exited")
            if "serves on" in line:
                self.address = line.split()[-1].removeprefix("http://")
            if "talks to its peers on" in line:
                self.peer_address = line.split()[-1].removeprefix("https://")
        wait_for(lambda: ready(self.address), "the edge to be ready")

    @property
    def server(self) -> int:
        """The id of the server process."""
        assert self._process is not None
        return self._process.pid

    @property
    def learner(self) -> int:
        """The id of the learner process."""
        return int(Path(f"/proc/{self.server}/task/{self.server}/children").read_text().split()[0])

    @property
    def version(self) -> int:
        """The version of the parameters that the server predicts from."""
        config = load(self.folder / "edge.toml")
        parameters = ParameterReader(self.folder / "data" / "parameters", model_schema(config, initial_model(config)))
        return parameters.read(lambda version, _: version.number)

    @property
    def batches(self) -> int:
        """Batches learned, up to the last aggregation."""
        return read_learned_mark(self.folder / "data").newest // self.batch

    def teach(self, periods: int, seed: int) -> None:
        """Send the events and the feedback of whole aggregation periods, and wait until they are learned."""
        before = self.batches
        for _ in range(periods):
            count = self.batch * self.every
            outputs = post(self.address, INFER, body(examples(count, seed)))["outputs"]
            ids = next(o["data"] for o in outputs if o["name"] == "prediction_id")
            rng = random.Random(seed)
            feedback = {"ids": ids, "labels": [float(rng.random() < 0.3) for _ in ids]}
            post(self.address, FEEDBACK, json.dumps(feedback))
            seed += 1
        wait_for(lambda: self.batches >= before + periods * self.every, f"{self.folder.name} to have learned")


def fleet(folder: Path, names: dict[str, str], start: Callable[[Edge], Edge], **settings: Any) -> list[Edge]:
    """Start the edges of one fleet with ``start``. names: with their regions. The first is the seed of the others."""
    authority = CertificateFolder(folder / "certs")
    now = dt.datetime.now(dt.UTC)
    authority.init("benchmark", now=now, days=100)
    made: list[Edge] = []
    for name, region in names.items():
        authority.issue(name, region, ["127.0.0.1"], now=now, days=10)
        files = {"certificate": f"{name}.pem", "key": f"{name}.key", "authority": "ca.pem"}
        peers = {
            "port": 0,
            "seeds": [made[0].peer_address] if made else [],
            **{kind: f"../certs/{file}" for kind, file in files.items()},
        }
        made.append(start(Edge(folder / name, edge=name, region=region, peers=peers, **settings)))
    return made


def examples(count: int, seed: int) -> list[tuple[int, int, int, int, list[float]]]:
    """Random users, items, occupations, ages and numbers; some items are more popular, as in real catalogues."""
    rng = random.Random(seed)
    return [
        (
            rng.randrange(USERS),
            int(rng.random() ** 2 * ITEMS),
            rng.randrange(OCCUPATIONS),
            rng.randrange(AGES),
            [round(rng.gauss(0, 1), 4) for _ in range(NUMBERS)],
        )
        for _ in range(count)
    ]


def body(some: list[tuple[int, int, int, int, list[float]]]) -> str:
    """An inference request. All ids are numbers, so that the other server has no texts to look up."""
    names = ["user", "item", "occupation", "age"]
    inputs = [
        {"name": name, "shape": [len(some)], "datatype": "INT64", "data": [e[i] for e in some]}
        for i, name in enumerate(names)
    ]
    numbers = [x for e in some for x in e[4]]
    inputs.append({"name": "numbers", "shape": [len(some), NUMBERS], "datatype": "FP32", "data": numbers})
    return json.dumps({"inputs": inputs})


def bodies(count: int, size: int, seed: int) -> list[str]:
    """Different inference requests of ``size`` examples each."""
    return [body(examples(size, seed * count + i)) for i in range(count)]


def post(address: str, path: str, text: str) -> dict[str, Any]:
    """Send a request; return its answer."""
    request = urllib.request.Request(f"http://{address}{path}", text.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.load(answer))


def ready(address: str) -> bool:
    """Whether a server can predict."""
    try:
        with urllib.request.urlopen(f"http://{address}/v2/models/{NAME}/ready", timeout=10):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.02)


def cpu_seconds(process: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen_seconds() -> float:
    """Processor time that the host of this virtual machine has taken from it (steal)."""
    with Path("/proc/stat").open() as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
