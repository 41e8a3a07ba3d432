"""Batches that would break the model are undone; after several in a row the learner goes back to a good state."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from alphaedge.core.rules.aggregation.learned import Learned
from alphaedge.edge.config import load
from alphaedge.edge.learning.checkpoints import Checkpoints, Progress, unpack_state
from alphaedge.edge.learning.examples import Examples
from alphaedge.edge.learning.learner import Learner
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.learning.publication import PullRequest
from alphaedge.edge.learning.rollback import MAX_UNDONE, START, last_good, roll_back
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.status import LearnerStatus, read_learner_status
from alphaedge.errors import RolledBack

from ..peers.test_driver import learning
from ..processes import BATCH, EVERY, Edge, events, send, teach, tell, wait_for
from .test_learner import shop_fleet


def tensors(learner: Learner) -> list[torch.Tensor]:
    """Everything that a batch may change."""
    found = [learner.evidence, learner.unused]
    for state in learner.states.values():
        found += [state.dense, state.dense_m, state.dense_v, state.steps, *state.buffers.values()]
        found += [x[:, :-1] for table in state.tables for x in (table.value, table.m, table.v)]
    return [x.clone() for x in found]


def broken(examples: Examples) -> Examples:
    return Examples(examples.inputs, torch.full_like(examples.labels, torch.nan))


def test_nothing_of_a_batch_that_breaks_the_model_is_learned() -> None:
    fleet = shop_fleet()
    me = fleet.learner("0")
    assert me.learn(fleet.examples(0, 0))
    me._batch(fleet.examples(0, 1))  # its ids get rows, whatever becomes of it
    before, records = tensors(me), me.records
    assert not me.learn(broken(fleet.examples(0, 1)))
    assert all(torch.equal(a, b) for a, b in zip(before, tensors(me), strict=True))
    assert me.records == records, "it counts as not learned"
    assert me.revealed == 2, "and the next round comes when it would have come"
    assert me.learn(fleet.examples(0, 2)), "the next batch is learned as ever"


def test_a_batch_that_waits_for_the_mix_is_undone_too_and_the_round_is_due_all_the_same() -> None:
    fleet = shop_fleet()
    fleet.method = replace(fleet.method, aggregation=replace(Learned(), weight_batches=1))
    me, every = fleet.learner("0"), fleet.method.aggregate_every
    for number in range(every - 1):
        me.learn(fleet.examples(0, number))
    assert not me.learn(broken(fleet.examples(0, every - 1)))
    assert me.waiting == []
    assert me.due
    assert me.mix([]) == {"0": 1.0}
    me.finish_round(["0"], {})
    assert not me.due


def wreck(learner: Learner, value: float = 1e38) -> None:
    """Make its models useless: by default they are finite, but so large that no batch can be learned."""
    for state in learner.states.values():
        state.dense[:] = value


def wreck_mixed(learner: Learner) -> None:
    learner.mixed.dense[:] = 1e38


def one_round(folder: Path, batches: int) -> LearningLoop:
    """A learner that has finished one round and has more to learn."""
    loop = learning(folder, batches)
    loop.start_round()
    loop.finish_round({}, ["berlin"], {})
    return loop


def test_after_several_undone_batches_the_learner_goes_back_to_its_last_good_state(tmp_path: Path) -> None:
    loop = one_round(tmp_path, 3 * EVERY)
    good, publication = loop.learner.mixed.dense.clone(), loop.learner.publication.number
    wreck(loop.learner)
    assert all(loop.step() for _ in range(MAX_UNDONE - 1))
    with pytest.raises(RolledBack, match=f"{MAX_UNDONE} batches in a row"):
        loop.step()
    passed_over = (EVERY + MAX_UNDONE) * BATCH
    assert read_learned_mark(tmp_path / "data").newest == passed_over

    restored = loop.learner.anew()
    progress, wrong = Checkpoints(tmp_path / "data" / "checkpoints").restore(restored, loop.schema)
    assert wrong == []
    assert torch.equal(restored.mixed.dense, good)
    assert (progress.feedback, progress.undone, progress.rollbacks) == (passed_over, MAX_UNDONE, 1)
    assert restored.publication.number == publication, "it never goes down"

    again = LearningLoop(load(tmp_path / "edge.toml"), tmp_path)
    assert again.learner.revealed == 2 * EVERY, "and it learns on from there"
    assert again.progress.undone == MAX_UNDONE


def test_a_crash_during_a_rollback_ends_in_the_same_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_round(tmp_path / "one", 3 * EVERY)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    ends = []
    for folder, crash in ((tmp_path / "one", None), (tmp_path / "two", "write_learned_mark")):
        spoil_newest_checkpoint(folder)
        with monkeypatch.context() as patch:
            if crash:
                patch.setattr(f"alphaedge.edge.learning.loop.{crash}", _crash)
            with pytest.raises((RolledBack, SystemExit)):
                LearningLoop(load(folder / "edge.toml"), folder)
        again = LearningLoop(load(folder / "edge.toml"), folder)
        ends.append((tensors(again.learner), again.progress))
    assert all(torch.equal(a, b) for a, b in zip(ends[0][0], ends[1][0], strict=True))
    assert ends[0][1] == ends[1][1]
    assert ends[0][1].rollbacks == 1


def _crash(*_: object) -> None:
    raise SystemExit


def test_a_crash_before_the_new_checkpoint_leads_to_the_same_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_round(tmp_path, 3 * EVERY)
    spoil_newest_checkpoint(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", _crash)
        with pytest.raises(SystemExit):
            LearningLoop(load(tmp_path / "edge.toml"), tmp_path)
    with pytest.raises(RolledBack):
        LearningLoop(load(tmp_path / "edge.toml"), tmp_path)


def undone(learner: Learner, batch: Examples) -> Learner:
    learner.undone = [batch]
    return learner


def test_a_bad_checkpoint_is_passed_over_for_an_older_one_and_for_the_start(tmp_path: Path) -> None:
    fleet = shop_fleet()
    good, store = fleet.learner("0"), Checkpoints(tmp_path)
    batch = fleet.examples(0, 5)
    for number in range(2):
        good.learn(fleet.examples(0, number))
    store.save(good, "s", Progress(feedback=10))
    bad = undone(fleet.learner("0"), batch)
    bad.aggregations = 1
    wreck(bad, torch.nan)
    store.save(bad, "s", Progress(feedback=20))
    found = last_good(bad, store, "s", Progress())
    assert found is not None
    assert torch.equal(found[1].mixed.dense, good.mixed.dense)
    twice = last_good(bad, store, "s", Progress(rolled_back_at=1))
    assert twice is not None
    assert twice[0] == START, "a rollback that did not help is not repeated"
    bad.aggregations = 2
    store.save(bad, "s", Progress(feedback=30))
    found = last_good(bad, store, "s", Progress())
    assert found is not None
    assert found[0] == START
    assert last_good(undone(bad, broken(batch)), store, "s", Progress()) is None, "no state can learn this batch"


def test_a_state_that_still_learns_other_batches_is_kept(tmp_path: Path) -> None:
    fleet = shop_fleet()
    me, store = fleet.learner("0"), Checkpoints(tmp_path)
    store.save(me, "s", Progress())
    me.learn(fleet.examples(0, 0))
    assert last_good(undone(me, fleet.examples(0, 1)), store, "s", Progress()) is None


def test_after_a_rollback_to_the_start_peers_can_pull_and_who_was_excluded_stays_so(tmp_path: Path) -> None:
    fleet = shop_fleet()
    fleet.live()
    bad, store = fleet.edges["0"], Checkpoints(tmp_path)
    number = bad.publication.number
    hostile = bad.links.neighbours[0]
    link = bad.links.known[hostile]
    link.weight, link.exclusions, link.excluded_until = 0.0, 2, bad.aggregations + 5
    roll_back(bad.anew(), bad, store, "s", Progress())
    again = bad.anew()
    progress, _ = store.restore(again, "s")
    assert (progress.rollbacks, progress.rolled_back_at) == (1, bad.aggregations + 1)
    none = tuple(torch.empty(0, dtype=torch.long) for _ in again.tables)
    answer = again.publication.answer(PullRequest(0, none, none), again.tables)
    assert answer.number == number
    assert answer.dense.shape == bad.mixed.dense[0].shape
    assert again.links.known[hostile].is_excluded(again.aggregations)
    assert again.links.known[hostile].weight == 0


def test_after_a_rollback_peers_get_all_rows_anew_however_little_they_have_moved(tmp_path: Path) -> None:
    fleet = shop_fleet(min_change=1e9)
    fleet.live()
    bad, store = fleet.edges["0"], Checkpoints(tmp_path)
    good, number = fleet.learner("0"), bad.publication.number
    store.save(bad, "s", Progress())
    store.restore(good, "s")
    roll_back(good, bad, store, "s", Progress())
    again = bad.anew()
    store.restore(again, "s")
    for _ in range(2):  # before its next publication, and after it
        keys = tuple(torch.tensor(table.numbering.keys_by_row()) for table in again.tables)
        none = tuple(known[:0] for known in keys)
        answer = again.publication.answer(PullRequest(number, keys, none), again.tables)
        for table, rows in zip(again.tables, answer.rows, strict=True):
            assert len(rows) == int((table.version > 0).sum()) > 0
        again._publish()


def test_batches_undone_after_the_mix_count_as_well(tmp_path: Path) -> None:
    loop = learning(tmp_path, EVERY)
    loop.start_round()
    loop.learner._go_back()  # as every mix does first
    wreck_mixed(loop.learner)
    loop.learner.undone = [loop.learner.waiting[0]] * (MAX_UNDONE - 1)
    loop.learner.last_trained = None
    with pytest.raises(RolledBack):
        loop.finish_round({}, ["berlin"], {})


def test_a_live_edge_with_a_wrecked_state_recovers_by_itself(tmp_path: Path) -> None:
    edge = Edge(tmp_path)
    edge.start()
    try:
        teach(edge, 2, seed=6)
        asked = [send(edge, events(EVERY * BATCH, seed)) for seed in (7, 8, 9)]  # a wreck may predict nothing finite
        edge.stop()
        spoil_newest_checkpoint(tmp_path)
        edge.start()
        before = status(edge).records
        for some in asked:
            tell(edge, some)
        wait_for(lambda: status(edge).records >= before + 2 * EVERY * BATCH, "it to learn on")
        assert (status(edge).rollbacks, status(edge).batches_undone) == (1, MAX_UNDONE)
    finally:
        edge.kill()


def status(edge: Edge) -> LearnerStatus:
    found = read_learner_status(edge.folder / "data" / "status.json")
    assert found is not None
    return found


def spoil_newest_checkpoint(folder: Path) -> None:
    """Follow the newest checkpoint of an edge that has stopped with a wreck."""
    loop = LearningLoop(load(folder / "edge.toml"), folder)
    store = Checkpoints(folder / "data" / "checkpoints")
    _, data = next(iter(store.saved(loop.schema)))
    wreckage = loop.learner.anew()
    progress = unpack_state(wreckage, data, loop.schema)
    wreckage.aggregations += 1
    wreck(wreckage)
    store.save(wreckage, loop.schema, progress)
