"""Real edges and the simulator run the same method: the same stream gives the same scores."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from alphaedge import MethodSettings
from alphaedge.edge.config import load
from alphaedge.edge.model import initial_model, model_schema
from alphaedge.edge.store.parameters import ParameterReader
from alphaedge.edge.store.status import read_learner_status
from alphaedge.scoring import auc

from ..simulation.fleets import predictions, seen
from .exact import DATA, make
from .learning.test_learner import in_order, whole_periods
from .processes import Edge, fleet_of, wait_for

SIZE, EVERY = 5, 8
METHOD: dict[str, Any] = {"aggregate_every": EVERY, "peers": 2, "adopt_rows": False}
AHEAD = 3
MODEL: dict[str, Any] = {
    "name": "shop",
    "factory": "tests.edge.exact:make",
    "batch_size": SIZE,
    "rate": 0.01,
    "fields": [{"name": f.name, "kind": f.kind, "size": f.size} for f in DATA.fields],
}
TYPES = {"id": "INT64", "code": "INT64", "number": "FP32", "set": "FP32"}


def predict(edge: Edge, number: int, batch: int) -> tuple[list[float], list[int], list[float]]:
    """Predict one batch of an edge's stream; return predictions, their ids and labels."""
    stream, part = DATA.streams[number], slice(batch * SIZE, (batch + 1) * SIZE)
    inputs = []
    for f in DATA.fields:
        values = stream.inputs[f.name][part]
        one = {"name": f.name, "shape": list(values.shape), "datatype": TYPES[f.kind]}
        inputs.append({**one, "data": values.flatten().tolist()})
    answer = edge.post("/v2/models/shop/infer", {"inputs": inputs})
    found = {o["name"]: o["data"] for o in answer["outputs"]}
    return found["prediction"], found["prediction_id"], stream.labels[part].tolist()


class Watch:
    """Reads the version of an edge's parameters from the file."""

    def __init__(self, edge: Edge) -> None:
        config = load(edge.path)
        self._reader = ParameterReader(edge.folder / "data" / "parameters", model_schema(config, initial_model(config)))

    def version(self) -> int:
        return self._reader.read(lambda version, _: version.number)


def views_agree(edges: list[Edge], publications: list[int]) -> bool:
    """Whether every edge knows every other edge's latest publication."""
    for me, edge in enumerate(edges):
        status = read_learner_status(edge.folder / "data" / "status.json")
        heard = {name: peer.publication for name, peer in status.peers.items()} if status else {}
        if heard != {str(j): p for j, p in enumerate(publications) if j != me}:
            return False
    return True


def has_pulled(edge: Edge, publications: list[int], number: int) -> bool:
    """Whether an edge holds what its neighbours have published."""
    status = read_learner_status(edge.folder / "data" / "status.json")
    near = {int(name): peer for name, peer in status.peers.items() if peer.neighbour} if status else {}
    return bool(near) and all(peer.held == publications[j] for j, peer in near.items() if publications[j])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ahead", [0, AHEAD], ids=["pulls at the round", "pulls ahead"])
def test_four_real_edges_score_as_the_simulator_says(
    ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    data = whole_periods(DATA)
    method = METHOD | {"pull_ahead": ahead}
    settings = MethodSettings(**method)
    simulated = seen(
        data=data, model=make, methods=["alphaedge"], method=settings, rate=0.01, id_rows="adagrad", batch_size=SIZE
    ).world
    changes = {"model": MODEL, "method": {"name": "alphaedge", **method}, "secret": None}
    found: list[list[list[float]]] = [[] for _ in data.streams]
    places = [(str(n), "EU") for n in range(len(data.streams))]
    with fleet_of(tmp_path, places, **changes) as edges:
        publications = [0] * len(edges)
        wait_for(lambda: views_agree(edges, publications), "all edges to know each other")
        watches = [Watch(edge) for edge in edges]
        for number, batch in in_order(data):
            edge, watch = edges[number], watches[number]
            before = watch.version()
            outputs, ids, labels = predict(edge, number, batch)
            found[number].append(outputs)
            assert edge.post("/v2/models/shop/feedback", {"ids": ids, "labels": labels})["accepted"] == SIZE
            aggregates = (batch + 1) % EVERY == 0
            wait_for(lambda: watch.version() == before + 1 + aggregates, "the batch to be learned")  # noqa: B023
            if ahead and (batch + 1) % EVERY == EVERY - ahead and any(publications):
                wait_for(lambda: has_pulled(edge, publications, number), "the models for the round")  # noqa: B023
            if aggregates:
                publications[number] += 1
                wait_for(lambda: views_agree(edges, publications), "the publication to be known everywhere")
        mixed = [read_learner_status(edge.folder / "data" / "status.json") for edge in edges]
    assert all(status and sum(p.pulls for p in status.peers.values()) > 0 for status in mixed), "they have mixed"
    for edge, outputs_ in enumerate(found):
        expected, got = predictions(simulated, edge), torch.tensor(outputs_)
        assert len(expected) == len(got) >= 3 * EVERY
        truth = data.streams[edge].labels[: expected.numel()].view(expected.shape)
        scores = [auc(x.double(), truth).nanmean() for x in (expected, got)]
        assert abs(float(scores[0] - scores[1])) <= 1e-4
        torch.testing.assert_close(got, expected.float(), rtol=0, atol=1e-5)
