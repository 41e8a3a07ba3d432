"""A learner that is restored goes on as if nothing had happened; a checkpoint that does not fit is an error."""

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from alphaedge.core.compression import Precision, residual_columns
from alphaedge.core.disclosure import Disclosure
from alphaedge.core.online import Online
from alphaedge.core.rules.optimizer.adam import Adam
from alphaedge.edge.learning.checkpoints import Checkpoints, Progress
from alphaedge.errors import CheckpointError

from ...own_rules import familiar
from ...simulation.fleets import exact, linear, measured
from .test_learner import EVERY, SHOP, Fleet, shop_fleet


def live_with_restarts(fleet: Fleet, folder: Path) -> list[torch.Tensor]:
    """Predictions of edges that are restarted now and then, from the newest checkpoint and what was learned since."""
    rng, checkpoints = random.Random(1), {name: Checkpoints(folder / name) for name in fleet.names}
    saved = dict.fromkeys(fleet.names, -1)  # aggregations
    restarts = 0

    def restart(edge: int, number: int) -> None:
        nonlocal restarts
        name = str(edge)
        me = fleet.edges[name]
        if me.aggregations > saved[name] and not me.waiting:  # what a live edge does at the end of each round
            checkpoints[name].save(me, "schema", Progress(feedback=number))
            saved[name] = me.aggregations
        if rng.random() < 0.3:
            again = fleet.learner(name)
            learned, wrong = checkpoints[name].restore(again, "schema")
            assert not wrong
            for missed in range(learned.feedback, number):
                again.learn(fleet.examples(edge, missed))
            fleet.edges[name] = again
            restarts += 1

    found = fleet.live(restart)
    assert restarts > 20
    return found


CHANGES: dict[str, dict[str, Any]] = {
    "in full": {"precision": "full"},
    "compressed": {"precision": "int8", "min_change": 0.2},
    "a budget for rows": {"publish_bytes": 60},
    "ids of three users": {"disclosure": Disclosure(min_users=3, user="user")},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_after_restarts_at_any_moment_the_state_is_that_of_a_run_without(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """The same predictions to the last bit, and the same numbers left out of what was published."""
    undisturbed, disturbed = shop_fleet(**changes), shop_fleet(**changes)
    for one, two in zip(undisturbed.live(), live_with_restarts(disturbed, tmp_path), strict=True):
        assert torch.equal(one, two)
    for name in undisturbed.names:
        mine, theirs = undisturbed.edges[name], disturbed.edges[name]
        assert torch.equal(mine.publication.residual, theirs.publication.residual)
        rounded = mine.method.precision == "int8"
        assert bool(mine.publication.residual.any()) == rounded
        assert any(bool(table.residual.any()) for table in mine.tables) == rounded
        for one_table, other in zip(mine.tables, theirs.tables, strict=True):
            assert torch.equal(one_table.residual, other.residual)
            assert torch.equal(one_table.named_since, other.named_since)
            assert torch.equal(one_table.marks, other.marks)


@pytest.mark.parametrize(("wrote", "reads"), [("bfloat16", "int8"), ("int8", "bfloat16")])
def test_an_edge_goes_on_after_its_precision_was_changed(tmp_path: Path, wrote: Precision, reads: Precision) -> None:
    fleet, other = shop_fleet(precision=wrote), shop_fleet(precision=reads)
    fleet.live()
    me, again = fleet.edges["0"], other.learner("0")
    Checkpoints(tmp_path).save(me, "schema", Progress())
    assert Checkpoints(tmp_path).restore(again, "schema") == (Progress(), [])
    assert torch.equal(again.publication.dense, me.publication.dense)
    again._publish()
    assert again.publication.number == me.publication.number + 1
    assert len(again.publication.residual) == residual_columns(len(again.publication.dense), reads)
    assert all(t.residual.shape[1] == residual_columns(t.width, reads) for t in again.tables)


def test_a_rules_numbers_survive_restarts(tmp_path: Path) -> None:
    data = measured(3, 40)
    undisturbed, disturbed = (
        Fleet(data, partial(exact, linear), familiar(aggregate_every=EVERY), Online(Adam(0.01))) for _ in range(2)
    )
    for one, two in zip(undisturbed.live(), live_with_restarts(disturbed, tmp_path), strict=True):
        assert torch.equal(one, two)
    for name in undisturbed.names:
        links = disturbed.edges[name].links
        assert links == undisturbed.edges[name].links
        assert links.own.numbers["seen"] >= 4
        assert min(link.numbers["seen"] for link in links.known.values()) >= 4


def test_a_checkpoint_holds_the_links_with_the_rules_numbers(tmp_path: Path) -> None:
    fleet = Fleet(measured(3, 16), linear, familiar(aggregate_every=EVERY), Online(Adam(0.01)))
    fleet.live()
    me, again = fleet.edges["1"], fleet.learner("1")
    Checkpoints(tmp_path).save(me, "schema", Progress(feedback=1))
    assert Checkpoints(tmp_path).restore(again, "schema") == (Progress(feedback=1), [])
    assert again.links == me.links
    assert again.links.own.numbers == {"seen": 2.0}


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_is_taken(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    states = {}

    def save(edge: int, number: int) -> None:
        me = fleet.edges["0"]
        if edge == 0 and not me.waiting and me.revealed % EVERY == 0:
            states[number] = (kept.save(me, "schema", Progress(feedback=number)), me.mixed.dense.clone())

    fleet.live(save)
    numbers = sorted(states)
    assert len(numbers) >= 3
    kept_names = {p.name for p in tmp_path.glob("*.safetensors")}
    assert kept_names == {states[n][0].name for n in numbers[-2:]}, "the last two are kept"
    newest, before = states[numbers[-1]], states[numbers[-2]]
    again = fleet.learner("0")
    assert kept.restore(again, "schema") == (Progress(feedback=numbers[-1]), [])
    assert torch.equal(again.mixed.dense, newest[1])
    for damage in (lambda b: b[: len(b) // 2], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""):
        whole = newest[0].read_bytes()
        newest[0].write_bytes(damage(whole))
        learned, wrong = kept.restore(again, "schema")
        assert learned.feedback == numbers[-2]
        assert "checksum" in wrong[0]
        assert torch.equal(again.mixed.dense, before[1])
        newest[0].write_bytes(whole)


def test_a_checkpoint_of_another_edge_is_refused_by_name(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    kept.save(fleet.edges["0"], "schema", Progress())
    with pytest.raises(CheckpointError, match="for edge 0, not 1"):
        kept.restore(fleet.learner("1"), "schema")
    assert kept.restore(fleet.learner("0"), "schema") == (Progress(), []), "it stays where it is"


def test_a_checkpoint_that_cannot_be_read_now_is_left_alone(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    path = kept.save(fleet.edges["0"], "schema", Progress(feedback=1))
    whole = path.read_bytes()
    path.unlink()
    path.mkdir()  # reading it fails, for root too
    with pytest.raises(CheckpointError, match="can't be read"):
        kept.restore(fleet.learner("0"), "schema")
    path.rmdir()
    path.write_bytes(whole)
    assert kept.restore(fleet.learner("0"), "schema") == (Progress(feedback=1), [])


def test_a_damaged_checkpoint_does_not_outrank_those_to_come(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    for number in (9, 10):
        fleet.edges["0"].aggregations = number
        kept.save(fleet.edges["0"], "schema", Progress(feedback=number)).write_bytes(b"damaged")
    again = fleet.learner("0")
    assert kept.restore(again, "schema")[0].feedback == 0
    assert len(list(tmp_path.glob("*.refused"))) == 2, "for somebody to look at"
    again.aggregations = 1
    kept.save(again, "schema", Progress(feedback=7))
    assert kept.restore(fleet.learner("0"), "schema") == (Progress(feedback=7), [])


def test_what_does_not_fit_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    fleet.live()
    me = fleet.edges["0"]
    me.waiting = []
    kept.save(me, "schema", Progress(feedback=1))
    small = shop_fleet(capacity=2)
    alone = Fleet(SHOP, small.make, replace(small.method, home=None), small.online)
    for learner, why in ((small.learner("0"), "sizes of its fields allow 2"), (alone.learner("0"), "home model")):
        before = learner.mixed.dense.clone()
        with pytest.raises(CheckpointError, match=why):
            kept.restore(learner, "schema")
        assert torch.equal(learner.mixed.dense, before)
        assert learner.tables[0].size == 0


def test_of_another_schema_the_last_checkpoint_stays(tmp_path: Path) -> None:
    fleet, kept = shop_fleet(), Checkpoints(tmp_path)
    me = fleet.edges["0"]
    for number in range(3):
        me.aggregations = number
        kept.save(me, "old", Progress(feedback=number))
    assert kept.restore(fleet.learner("0"), "new") == (Progress(), [])
    for number in range(3):
        me.aggregations = number
        kept.save(me, "new", Progress(feedback=10 + number))
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    assert kept.others("new") == {"old"}
    assert kept.restore(fleet.learner("0"), "old")[0].feedback == 2, "a rollback"


def test_no_checkpoint_is_written_while_batches_wait(tmp_path: Path) -> None:
    fleet = shop_fleet()
    me = fleet.edges["0"]
    for number in range(EVERY - 1):
        me.learn(fleet.examples(0, number))
    with pytest.raises(CheckpointError, match="batches wait"):
        Checkpoints(tmp_path).save(me, "schema", Progress())
    assert not list(tmp_path.iterdir())


def test_an_edge_that_is_to_count_users_from_now_on_keeps_what_it_has_named(tmp_path: Path) -> None:
    before, after = shop_fleet(), shop_fleet(disclosure=Disclosure(min_users=3, user="user", local=("user",)))
    before.live()
    me, again = before.edges["0"], after.learner("0")
    Checkpoints(tmp_path).save(me, "schema", Progress())
    Checkpoints(tmp_path).restore(again, "schema")
    users, items = again.tables[:2]
    assert not (users.named_since >= 0).any(), "users are named no more"
    assert torch.equal(items.named_since, me.tables[1].named_since)
    assert not items.marks.any()
    once_more = before.learner("0")
    Checkpoints(tmp_path).save(again, "schema", Progress())
    Checkpoints(tmp_path).restore(once_more, "schema")
    named = once_more.tables[0].named_since[: len(once_more.tables[0].numbering)]
    assert bool((named >= 0).all()), "and are named again where they may be"
