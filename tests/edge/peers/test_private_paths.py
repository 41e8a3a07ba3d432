"""Whatever happens to an edge with privacy on, peers get its released model and nothing else."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphaedge.edge.config import load
from alphaedge.edge.inputs.features import Features
from alphaedge.edge.learning.checkpoints import Checkpoints
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.learning.publication import PulledModel, PullRequest
from alphaedge.edge.learning.rollback import roll_back
from alphaedge.edge.peers import everything
from alphaedge.edge.peers.number_format import unpack_dense, unpack_rows
from alphaedge.edge.peers.pulls import Pulls
from alphaedge.edge.peers.wire import pack_request, unpack_answer
from alphaedge.edge.peers.wire_keys import KeyCipher
from alphaedge.edge.store.journal import Journal
from alphaedge.edge.trust.wire_secrets import WireSecrets
from alphaedge.errors import InvalidValue, ModelRefused

from ..learning.private import released
from ..processes import CONFIG, EVERY
from .test_driver import learning

METHOD = {**CONFIG["method"], "precision": "full", "privacy": {"epsilon": 80.0, "tables": ["item"], "tally_batches": 1}}
SECRETS = WireSecrets(b"")
BATCHES = 6 * EVERY
ACTIONS = ["learn", "round", "bootstrap", "adopt", "restart", "drop", "roll back"]


class Watched:
    """An edge with privacy on, a peer of it, and a look at everything that the edge would answer."""

    def __init__(self, folder: Path, peer: LearningLoop) -> None:
        self.folder, self.peer, self.asked = folder, Pulls(peer.learner, peer.schema, SECRETS), itertools.count(1)
        self.history: set[tuple[int, int, bytes]] = set()  # rows that were released: table, key, values
        self.restart()

    def restart(self) -> None:
        self.loop = LearningLoop(load(self.folder / "edge.toml"), self.folder)
        self.pulls = Pulls(self.loop.learner, self.loop.schema, SECRETS)

    def do(self, action: str) -> None:
        loop, learner = self.loop, self.loop.learner
        match action:
            case "learn":
                while loop.step():
                    pass
            case "round" if loop.due:
                if not learner.links.known:
                    learner.join(["berlin", "boston"])
                loop.start_round()
                near = "boston" in learner.links.neighbours
                loop.finish_round({"boston": self.pull()} if near else {}, ["berlin", "boston"], {})
            case "bootstrap" if not learner.revealed and loop.untaught:
                pending = self.pulls.request_start("boston")
                asked = self.peer.read_request("berlin", pending.data)
                answer = self.peer.answer_model("berlin", *asked)
                loop.bootstrap([self.pulls.accept("boston", pending, answer)])
            case "adopt":
                self.ask_for_new_ids()
                assert loop.new_ids(float(next(self.asked)) * 1000) == [], "nobody is asked about an id"
            case "restart":
                self.restart()
            case "drop":
                loop.drop(["boston"])
            case "roll back" if learner.aggregations:
                checkpoints = Checkpoints(self.folder / "data" / "checkpoints")
                good = learner.anew()
                progress, _ = checkpoints.restore(good, loop.schema)
                roll_back(good, learner, checkpoints, loop.schema, progress)
                self.restart()

    def pull(self) -> PulledModel:
        pending = self.pulls.request_model("boston")
        assert pending.route == everything.ROUTE
        answer = self.peer.answer_everything("berlin", pending.data)
        assert len(answer) <= pending.max_bytes
        return self.pulls.accept("boston", pending, answer)

    def ask_for_new_ids(self) -> None:
        features = Features(self.loop.config.model.fields, b"secret")
        journal = Journal(self.folder / "data" / "journal.db", layout=features.layout)
        new = {
            "user": np.array([b"new"], dtype=object),
            "item": np.array([next(self.asked) % 20]),
            "x": np.zeros((1, 2)),
        }
        journal.record_predictions(features.to_bytes(features.encode(new)), [0.5], 1e10)
        journal.close()

    def check(self) -> None:
        """Everything that leaves is of the released model."""
        learner, private = self.loop.learner, released(self.loop.learner)
        assert learner.topology == {}
        keys = tuple(torch.tensor(table.numbering.keys_by_row(), dtype=torch.long) for table in learner.tables)
        cipher = KeyCipher(SECRETS.newest_first[0], "boston", learner.name)
        data, _ = pack_request(PullRequest(0, keys, keys), self.loop.schema, None, cipher)
        everything_ = everything.pack_request(self.loop.schema, 0, 1000)
        if not learner.publication.number:
            with pytest.raises(ModelRefused, match="nothing is published"):
                self.pulls.read_request("boston", data)
            with pytest.raises(ModelRefused, match="nothing is published"):
                self.pulls.answer_everything("boston", everything_)
            return
        asked = self.pulls.read_request("boston", data)
        for answer in (
            self.pulls.answer_model("boston", *asked),
            self.pulls.answer_rows("boston", *asked),
            self.pulls.answer_everything("boston", everything_),
        ):
            about, tensors = unpack_answer(answer)
            assert about.records == private.records
            for name, tensor in tensors.items():
                kind, _, rest = name.partition(".")
                if kind == "dense":
                    assert torch.equal(tensor, private.models.dense[0])
                elif kind == "buffer":
                    assert torch.equal(tensor, private.models.buffers[rest][0])
                elif kind == "rows":
                    named = any(name.startswith("keys.") for name in tensors)
                    assert len(tensor) == (int((learner.tables[int(rest)].version > 0).sum()) if named else 0)
                    assert int(rest) == 1 or not len(tensor), "only rows of items are told"
                else:
                    assert kind in ("places", "keys")
        self.check_rows()

    def check_rows(self) -> None:
        learner, private = self.loop.learner, released(self.loop.learner)
        may = private.learning.told(private.released)
        for t, (table, state) in enumerate(zip(learner.tables, private.models.tables, strict=True)):
            for row, key in enumerate(table.numbering.keys_by_row()):
                told = table.published[row]
                if table.version[row] == learner.publication.number:
                    assert bool(may[t][0, row]), "enough stands behind it"
                    assert torch.equal(told, state.value[0, row, : len(told)])
                    self.history.add((t, key, told.numpy().tobytes()))
                elif table.version[row]:
                    assert (t, key, told.numpy().tobytes()) in self.history, "it was released before"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LearningLoop]:
    """The folder of an edge with feedback to learn from, and a peer that has published rows."""
    folder = tmp_path_factory.mktemp("edges")
    edge = learning(folder / "berlin", BATCHES, method=METHOD)
    shutil.rmtree(folder / "berlin" / "data" / "parameters", ignore_errors=True)
    del edge
    peer = learning(folder / "boston", BATCHES, method=METHOD, edge="boston")
    while peer.step_alone():
        pass
    assert bool((peer.learner.tables[1].version > 0).any())
    return folder / "berlin", peer


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(ACTIONS), min_size=4, max_size=12))
def test_no_path_publishes_anything_but_the_released_model(
    start: tuple[Path, LearningLoop], tmp_path_factory: pytest.TempPathFactory, actions: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("life") / "berlin"
    shutil.copytree(start[0], folder)
    watched = Watched(folder, start[1])
    for action in actions:
        watched.do(action)
        watched.check()


def test_a_life_with_everything_in_it_publishes_the_released_model_and_learns_from_the_peer(
    start: tuple[Path, LearningLoop], tmp_path: Path
) -> None:
    shutil.copytree(start[0], tmp_path / "berlin")
    watched = Watched(tmp_path / "berlin", start[1])
    actions = ["bootstrap", *["learn", "round"] * 2, "adopt", *["learn", "round"] * 2, "roll back", "learn", "restart"]
    for action in (*actions, "round", "learn", "adopt", "round", "drop"):
        watched.do(action)
        watched.check()
    learner = watched.loop.learner
    assert learner.publication.number > 1
    assert watched.history, "rows were told"
    assert not torch.equal(learner.mixed.dense, released(learner).models.dense)
    assert any(link.publication > 0 for link in learner.links.known.values()) or not learner.links.neighbours


def test_an_edge_with_privacy_on_can_not_ask_about_an_id(start: tuple[Path, LearningLoop]) -> None:
    pulls = Pulls(start[1].learner, start[1].schema, SECRETS)
    some = [torch.tensor([1]), torch.tensor([2])]
    with pytest.raises(InvalidValue, match="an edge with privacy on asks about no id"):
        pulls.request_rows("boston", some)


def test_an_edge_without_privacy_does_not_say_which_ids_it_has_rows_of(tmp_path: Path) -> None:
    loop = learning(tmp_path, EVERY)
    while loop.step_alone():
        pass
    answer = Pulls(loop.learner, loop.schema, SECRETS).answer_everything(
        "boston", everything.pack_request(loop.schema, 0, 99)
    )
    about, tensors = unpack_answer(answer)
    assert about.number == 1
    dense = loop.learner.publication.dense
    assert torch.equal(unpack_dense(tensors["dense"], len(dense), dense.dtype), dense)
    for t, table in enumerate(loop.learner.tables):
        told = table.published.shape[1]
        empty = unpack_rows(tensors[f"rows.{t}"], t, count=0, width=table.width, told=told, dtype=dense.dtype)
        assert [len(part) for part in empty] == [0, 0]
