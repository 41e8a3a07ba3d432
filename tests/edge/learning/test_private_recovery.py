"""What an edge with privacy on has released outlives crashes, rollbacks and new terms, and nothing is spent twice."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from alphaedge import toml
from alphaedge.core.compression import compress_dense
from alphaedge.edge.config import EdgeConfig, load
from alphaedge.edge.learning.checkpoints import Checkpoints
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.ledger_file import FILE, read_note
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.learning.noise_key import LotNoise
from alphaedge.edge.learning.rollback import MAX_UNDONE
from alphaedge.errors import CheckpointError, RolledBack

from ..peers.test_driver import learning
from ..processes import BATCH, CONFIG, EVERY
from .private import released
from .test_rollback import wreck

EVENTS: dict[str, Any] = {"epsilon": 80.0, "tables": ["item"], "tally_batches": 1}
USERS: dict[str, Any] = {**EVENTS, "user": "user", "participations": 50}


def private_method(privacy: Mapping[str, Any] = USERS, **changes: Any) -> dict[str, Any]:
    return {**CONFIG["method"], "privacy": {**privacy, **changes}}


def a_round(loop: LearningLoop) -> None:
    while loop.step():
        pass
    loop.start_round()
    loop.finish_round({}, ["berlin"], {})


def again(folder: Path, **changes: Any) -> LearningLoop:
    """A restart, maybe with other sections of the configuration."""
    config = load(folder / "edge.toml")
    if changes:
        raw = toml.read(folder / "edge.toml") | changes
        (folder / "edge.toml").write_text(tomli_w.dumps(raw))
        config = load(folder / "edge.toml")
    assert isinstance(config, EdgeConfig)
    return LearningLoop(config, folder)


def state(learner: Learner) -> tuple[list[torch.Tensor], tuple[Any, ...]]:
    """Everything that was released, and the account of it."""
    private, models = released(learner), released(learner).models
    found = [models.dense, models.dense_m, models.dense_v, models.steps, *models.buffers.values()]
    found += [table.storage[:, :, :-1] for table in models.tables]
    found += [*private.released.counts, *private.released.there, private.released.scaled, learner.publication.dense]
    found += [x for table in learner.tables for x in (table.version, table.published)]
    ledger = private.ledger
    about = (ledger.window, ledger.windows, ledger.taken, private.records, private.spent, learner.publication.number)
    return [x.clone() for x in found], (*about[:2], dict(ledger.taken), *about[3:])


def assert_same(one: Learner, two: Learner) -> None:
    (mine, account), (theirs, other) = state(one), state(two)
    assert account == other
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


ROUNDS = 5  # the first lot, of ten batches, is complete in the third


@pytest.mark.parametrize("privacy", [EVENTS, {**USERS, "lot_batches": 3}], ids=["events", "users, longer lots"])
def test_a_crash_after_a_private_step_and_before_its_checkpoint_gives_the_same_release_again(
    privacy: dict[str, Any], tmp_path: Path
) -> None:
    crashing = learning(tmp_path / "one", ROUNDS * EVERY, method=private_method(privacy))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for _ in range(ROUNDS):
        while crashing.step():
            pass
        crashing.start_round()
        told = state(crashing.learner)  # a peer may have seen it
        crashing = again(tmp_path / "one")  # and the process was killed
        assert released(crashing.learner).records < crashing.learner.revealed * BATCH
        crashing.start_round()
        after = state(crashing.learner)
        assert told[1] == after[1]
        assert all(torch.equal(a, b) for a, b in zip(told[0], after[0], strict=True))
        crashing.finish_round({}, ["berlin"], {})
    calm = again(tmp_path / "two")
    for _ in range(ROUNDS):
        a_round(calm)
    assert calm.learner.publication.number > 0
    assert bool((calm.learner.tables[1].version > 0).any()) == (privacy is EVENTS), "too few users stand behind a row"
    assert not bool((calm.learner.tables[0].version > 0).any()), "rows of users never are"
    assert_same(crashing.learner, calm.learner)
    assert_same(again(tmp_path / "one").learner, calm.learner)


def test_an_edge_that_is_killed_after_a_private_step_releases_the_same_again(tmp_path: Path) -> None:
    loop = learning(tmp_path / "one", ROUNDS * EVERY, method=private_method())
    for _ in range(ROUNDS - 1):
        a_round(loop)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    child = os.fork()
    if not child:
        again(tmp_path / "one").start_round()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    note = read_note(tmp_path / "one" / "data")
    assert note is not None
    killed, calm = again(tmp_path / "one"), again(tmp_path / "two")
    assert note.since == released(killed.learner).spent < note.spent, "its checkpoint is older than what it has told"
    a_round(killed)
    a_round(calm)
    assert_same(killed.learner, calm.learner)
    assert released(killed.learner).spent == note.spent
    assert released(killed.learner).ledger.taken == note.taken


def test_a_restored_copy_that_meets_other_events_draws_other_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two releases with the same noise, subtracted, would show the events of both."""
    keys: list[bytes] = []
    made = LotNoise.__init__

    def note(self: LotNoise, key: bytes) -> None:
        keys.append(key)
        made(self, key)

    monkeypatch.setattr(LotNoise, "__init__", note)
    loop = learning(tmp_path / "one", ROUNDS * EVERY, method=private_method())
    for _ in range(ROUNDS - 1):
        a_round(loop)
    spent = released(loop.learner).spent
    for name in ("same", "other label", "other model"):
        shutil.copytree(tmp_path / "one", tmp_path / name)
    with sqlite3.connect(tmp_path / "other label" / "data" / "journal.db") as journal:
        journal.execute("update feedback set label = 1 - label where number = ?", (spent + 1,))
    drawn = []
    for name in ("one", "same", "other label", "other model"):
        restored = again(tmp_path / name)
        if name == "other model":
            released(restored.learner).models.dense[0, 0] += 1
        keys.clear()
        a_round(restored)
        assert keys, "the lot's number is the same in all"
        drawn.append(keys[0])
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_no_publication_is_there_before_its_ledger_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = learning(tmp_path, ROUNDS * EVERY, method=private_method())
    for _ in range(ROUNDS):
        while loop.step():
            pass
        loop.start_round()
        note, private = read_note(tmp_path / "data"), released(loop.learner)
        assert (note.spent, note.taken) == (private.spent, private.ledger.taken) if note else not private.spent
        loop.finish_round({}, ["berlin"], {})
    assert note is not None
    assert note.windows == 1


@pytest.mark.parametrize("lost", ["the newest checkpoint", "all checkpoints", "the terms", "the model's settings"])
def test_events_that_were_published_from_another_state_are_never_in_a_lot_again(lost: str, tmp_path: Path) -> None:
    loop = learning(tmp_path, (ROUNDS + 1) * EVERY, method=private_method())
    for _ in range(ROUNDS):
        a_round(loop)
    spent, taken = released(loop.learner).spent, dict(released(loop.learner).ledger.taken)
    while loop.step():
        pass
    loop.start_round()
    published = loop.learner.publication.number
    newest, most = released(loop.learner).spent, dict(released(loop.learner).ledger.taken)
    assert newest > spent
    checkpoints = Checkpoints(tmp_path / "data" / "checkpoints")
    paths = sorted((tmp_path / "data" / "checkpoints").glob("checkpoint-*"))
    assert len(paths) == 2
    for path in {"the newest checkpoint": paths[1:], "all checkpoints": paths}.get(lost, []):
        path.unlink()
    assert checkpoints.any(loop.schema) == (lost != "all checkpoints")
    changes = {
        "the terms": {"method": private_method(clip=0.5)},
        "the model's settings": {"model": {**CONFIG["model"], "local_steps": 2}},
    }.get(lost, {})
    after = again(tmp_path, **changes)
    private = released(after.learner)
    assert (private.spent, private.ledger.taken) == (newest, most), "the account does not go back"
    assert private.waiting == []
    while after.step_alone():
        pass
    assert released(after.learner).spent == newest
    assert taken != most
    assert after.learner.publication.number == (published if lost != "all checkpoints" else 0)


def test_a_lost_ledger_file_costs_nothing_as_long_as_the_checkpoint_is_there(tmp_path: Path) -> None:
    loop = learning(tmp_path, ROUNDS * EVERY, method=private_method())
    for _ in range(ROUNDS):
        a_round(loop)
    (tmp_path / "data" / FILE).unlink()
    assert_same(again(tmp_path).learner, loop.learner)
    (tmp_path / "data" / "noise.key").unlink()
    with pytest.raises(CheckpointError, match=r"noise\.key is gone"):
        again(tmp_path)


def test_a_rollback_keeps_what_was_released_and_the_ledger(tmp_path: Path) -> None:
    loop = learning(tmp_path, (ROUNDS + 1) * EVERY, method=private_method())
    for _ in range(ROUNDS):
        a_round(loop)
    before, learner = state(loop.learner), loop.learner
    keys = {key: learner.tables[1].version[row] for row, key in enumerate(learner.tables[1].numbering.keys_by_row())}
    wreck(learner)
    assert all(loop.step() for _ in range(MAX_UNDONE - 1))
    with pytest.raises(RolledBack):
        loop.step()
    after = again(tmp_path)
    found, account = state(after.learner)
    assert account == before[1]
    assert torch.equal(found[0], before[0][0])
    versions = after.learner.tables[1].version
    assert {key: versions[after.learner.tables[1].numbering.find(key) or 0] for key in keys} == keys
    assert bool(torch.isfinite(released(after.learner).models.dense).all())


def test_an_edge_that_turns_privacy_on_takes_back_what_it_had_published(tmp_path: Path) -> None:
    loop = learning(tmp_path, 2 * EVERY)
    a_round(loop)
    assert bool((loop.learner.tables[1].version > 0).any())
    after = again(tmp_path, method=private_method()).learner
    assert after.publication.number == loop.learner.publication.number
    start = after.model.initial_dense()
    assert torch.equal(after.publication.dense, compress_dense(start, start[:0], after.method.precision).published)
    assert after.publication.records == 0
    assert not any(bool((table.version > 0).any() or table.published.any()) for table in after.tables)
    assert after.topology == {}


def test_an_undone_batch_is_in_no_lot(tmp_path: Path) -> None:
    loop = learning(tmp_path, EVERY, method=private_method())
    assert len(released(loop.learner).waiting) == EVERY
    wreck(loop.learner)
    examples = released(loop.learner).waiting[0]
    assert not loop.learner.learn(examples._replace(labels=torch.full_like(examples.labels, torch.nan), first=10**6))
    assert len(released(loop.learner).waiting) == EVERY
