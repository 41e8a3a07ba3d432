"""Two live edges with the model that ``--print-config`` prints for a small store; the second asks for a token."""

import socket
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from alphaedge import Dataset, Store, synthetic
from alphaedge.cli import app
from alphaedge.edge.store.status import read_learner_status
from alphaedge.inference.client import EdgeClient
from tests.edge.processes import Edge

BATCH, TOKEN = 20, "s3cret"
SMALL = ["--edges", "3", "--events", "400", "--batch-size", str(BATCH)]  # what ``store`` is, for the command line


@pytest.fixture(scope="session")
def store() -> Dataset:
    return synthetic(Store(edges=3, events=400))


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Edge]]:
    folder = tmp_path_factory.mktemp("edges")
    printed = CliRunner().invoke(app, ["replay", "--print-config", "--model", "shop", *SMALL])
    assert printed.exit_code == 0, printed.output
    made = []
    for name in ("plain", "guarded"):
        serve = {"port": free_port()} | ({"token": "token"} if name == "guarded" else {})
        made.append(Edge(folder / name, edge=name, serve=serve, **tomllib.loads(printed.stdout)))
        (folder / name / "token").write_text(TOKEN + "\n")
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda edge: edge.start(), made))
        yield made
    finally:
        for edge in made:
            edge.end()


def free_port() -> int:
    """Return a free port, which an edge keeps when it is killed and started again."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def client_of(edge: Edge) -> EdgeClient:
    return EdgeClient(edge.url, token=TOKEN)


def learned(edge: Edge) -> int:
    """Return how many batches an edge has learned."""
    status = read_learner_status(edge.folder / "data" / "status.json")
    return 0 if status is None else status.batches
