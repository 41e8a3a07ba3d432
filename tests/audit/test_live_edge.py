"""The audit of a live edge: by its own files, of which it changes none, and whether it sees what there is to see."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec import structs

from alphaedge.audit.journal_events import read_events
from alphaedge.audit.live_edge import audit_live_edge
from alphaedge.audit.live_words import lines
from alphaedge.audit.publication_attack import published_model
from alphaedge.core.online import predict
from alphaedge.edge.config import load
from alphaedge.edge.learning.checkpoints import NAME
from alphaedge.edge.learning.id_tables import outputs_of
from alphaedge.edge.learning.saved_learner import read_learner
from alphaedge.edge.model import initial_model
from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.learned_mark import read_learned_mark

from ..edge.processes import BATCH, CONFIG, Edge, events, send, teach, tell
from .edges import EAGER, PRIVATE, ROUND, checksums, edge_folder, held

ROUNDS, LATER = 8, 120


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edge_folder(tmp_path_factory.mktemp("eager"), ROUNDS, LATER, model=EAGER)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edge_folder(tmp_path_factory.mktemp("private"), ROUNDS, LATER, model=EAGER, method=PRIVATE)


def test_an_edge_that_learns_by_heart_is_found_out_by_its_publication(eager: Path) -> None:
    audit = audit_live_edge(eager)
    found = audit.publication
    assert (found.learned, found.later) == (ROUNDS * ROUND, LATER)
    assert found.loss_threshold is not None
    assert found.loss_threshold.auc_ci95 is not None
    assert found.loss_threshold.auc - found.loss_threshold.auc_ci95 > 0.7
    assert found.tells
    assert found.drift is not None
    assert found.drift.auc_ci95 is not None
    assert abs(found.drift.auc - 0.5) < 2 * found.drift.auc_ci95, "nothing drifts here"
    assert found.rare_ids.ids == ROUNDS * ROUND
    assert found.rare_ids.read > 0.9 * found.rare_ids.ids
    assert not audit.broken, "it promises nothing"
    assert "seems to tell which events it has learned" in lines(audit)[0]


def test_what_is_attacked_predicts_as_the_edge_did_when_it_published(tmp_path: Path) -> None:
    """Alone and in full precision, the mixed model is published as it is."""
    path = edge_folder(tmp_path, 3, 20, method={**CONFIG["method"], "precision": "full"})
    learner, progress = read_learner(load(path), tmp_path)
    assert progress is not None
    found = read_events(load(path), tmp_path / "data" / "journal.db", learner.model, progress.feedback)
    events = found.events
    inputs = list(events.inputs)
    for layout, keys in zip(learner.model.tables, found.keys, strict=True):
        for field in layout.fields:
            inputs[field] = keys[inputs[field]]
    wanted = outputs_of(learner.mixed, learner.tables, inputs, learner.gradients)
    batch = events.batch(learner.model, torch.arange(len(events)).unsqueeze(0))
    outputs = predict(published_model(learner, found).models, batch, learner.gradients)
    torch.testing.assert_close(outputs, wanted)
    assert outputs.std() > 0.01


def test_with_privacy_neither_the_publication_nor_canaries_contradict_the_promise(private: Path) -> None:
    audit = audit_live_edge(private, canaries=60, quick=True)
    found = audit.publication
    assert found.number > 0
    assert found.learned == ROUNDS * ROUND
    assert found.loss_threshold is not None
    assert found.loss_threshold.auc < 0.6
    assert (found.rare_ids.told, found.rare_ids.read) == (0, 0), "rows of users never leave"
    assert audit.promise is not None
    assert audit.promise.tallies is not None
    assert audit.promise.privacy == load(private).method.make().privacy
    assert not audit.broken
    assert lines(audit)[0].startswith("This fits the promise of epsilon 2")


@pytest.mark.parametrize("state", ["stopped", "running", "killed"])
def test_no_file_of_the_edge_changes_and_its_locks_are_no_hindrance(state: str, eager: Path, tmp_path: Path) -> None:
    folder = tmp_path / "edge"
    shutil.copytree(eager.parent, folder)
    running = held(folder / "data") if state != "stopped" else contextlib.nullcontext()
    with running if state == "running" else contextlib.nullcontext():
        if state == "killed":
            with running:
                pass
        before = checksums(folder)
        assert any(name.endswith("-wal") for name in before) == (state != "stopped")
        found = audit_live_edge(folder / "edge.toml").publication
        assert checksums(folder) == before
    assert found.later == LATER


def test_what_the_mixed_model_had_not_trained_on_yet_was_not_learned(tmp_path: Path) -> None:
    """Without training ahead, the last two batches of a round are trained on after the publication."""
    method = {**CONFIG["method"], "train_ahead": False}
    path = edge_folder(tmp_path, 3, 7, method=method)
    found = audit_live_edge(path).publication
    learner, progress = read_learner(load(path), tmp_path)
    assert found.learned == learner.publication.records == 3 * ROUND - 2 * BATCH
    assert progress is not None
    assert found.later == 2 * BATCH + 7


def test_a_row_that_holds_many_events_of_which_the_journal_has_one_is_no_single_event(
    eager: Path, tmp_path: Path
) -> None:
    """Items are in many events each; after a clean-up some are in one that is left."""
    shutil.copytree(eager.parent, tmp_path / "edge")
    path = tmp_path / "edge" / "edge.toml"
    journal = Journal(tmp_path / "edge" / "data" / "journal.db")
    mark = ROUNDS * ROUND - 30
    while journal.clean_up(before=1.5, learned=mark, negative=False, now=3.0).more:
        pass
    journal.close()
    found = audit_live_edge(path).publication
    assert found.learned == 30
    assert found.rare_ids.ids == 30, "the users alone"


def test_only_the_newest_events_are_taken_whose_ids_have_rows(eager: Path) -> None:
    """A table that is too small for all ids of the journal would make two of them one."""
    config = load(eager)
    fields = [structs.replace(f, size=100) if f.name == "user" else f for f in config.model.fields]
    model = initial_model(structs.replace(config, model=structs.replace(config.model, fields=tuple(fields))))
    path = eager.parent / "data" / "journal.db"
    found = read_events(config, path, model, last=ROUNDS * ROUND)
    every = read_events(config, path, initial_model(config), last=ROUNDS * ROUND)
    assert len(found.events) == 100
    assert torch.equal(found.events.labels, every.events.labels[-100:])
    assert torch.equal(found.learned, every.learned[-100:])
    user = model.fields.index("user")
    assert torch.equal(found.keys[0][found.events.inputs[user]], every.keys[0][every.events.inputs[user][-100:]])


def test_too_few_later_events_are_said_to_be_too_few(tmp_path: Path) -> None:
    audit = audit_live_edge(edge_folder(tmp_path, 1, 5))
    assert audit.publication.loss_threshold is None
    said = lines(audit)
    assert "there are too few events" in said[0]
    assert "5 whose labels came too late" in said[1]
    assert "too few to attack it: that takes 10 of either kind" in said[2]


def test_where_too_few_labels_have_come_since_the_publication_before_is_attacked(tmp_path: Path) -> None:
    found = audit_live_edge(edge_folder(tmp_path, 4, 5, model=EAGER)).publication
    assert (found.number, found.learned, found.later) == (3, 3 * ROUND, ROUND + 5)
    assert found.tells


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_looked_for_again(
    eager: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(eager.parent, tmp_path / "edge")
    kept = [p for p in (tmp_path / "edge" / "data" / "checkpoints").iterdir() if NAME.fullmatch(p.name)]
    whole = {path: path.read_bytes() for path in kept}
    for path, data in whole.items():
        path.write_bytes(data[: len(data) // 2])

    def wait(_: float) -> None:
        for path, data in whole.items():
            path.write_bytes(data)

    monkeypatch.setattr("time.sleep", wait)
    learner, progress = read_learner(load(tmp_path / "edge" / "edge.toml"), tmp_path / "edge")
    assert progress is not None
    assert learner.publication.number == ROUNDS


@pytest.mark.long
@pytest.mark.parametrize("changes", [{}, {"method": PRIVATE}], ids=["plain", "private"])
def test_an_edge_is_audited_while_it_runs_and_goes_on(changes: dict[str, Any], tmp_path: Path) -> None:
    edge = Edge(tmp_path, **changes)
    edge.start()
    try:
        teach(edge, 6, seed=0)
        tell(edge, send(edge, events(15, seed=1)))
        found = audit_live_edge(edge.path, canaries=20, quick=True)
        assert found.publication.number > 0
        assert found.publication.learned + found.publication.later == 6 * ROUND + 15
        assert not found.broken
        teach(edge, 1, seed=2)
        assert read_learned_mark(tmp_path / "data").newest >= 7 * ROUND
    finally:
        edge.end()
