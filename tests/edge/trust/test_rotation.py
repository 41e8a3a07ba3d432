"""The secret under which keys travel is changed while edges run: real processes, one edge after the other."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alphaedge.cli import app
from alphaedge.edge.inputs.numbering import key_of
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.trust.wire_secrets import WIRE_SECRETS_FILE

from ..hostile import EdgeLog
from ..processes import BATCH, EVERY, Edge, events, fleet_of, restored, send, teach, tell, wait_for

FIRST = b"a secret of the fleet"
ITEMS = 1  # the second id table
Fleet = tuple[Edge, Edge]


@pytest.fixture
def fleet(tmp_path: Path, edge_log: EdgeLog) -> Iterator[Fleet]:
    with edge_log.capture(), fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")]) as made:
        yield made[0], made[1]


def change_secret(tmp_path: Path, step: str) -> Path:
    """Take a step of a rotation, as an operator; return the file to copy."""
    (tmp_path / "fleet.secret").write_bytes(FIRST)
    result = CliRunner().invoke(app, ["certs", "secret", str(tmp_path / "fleet.secret"), step])
    assert result.exit_code == 0, result.output
    return tmp_path / WIRE_SECRETS_FILE


def give(edge: Edge, file: Path, log: EdgeLog) -> None:
    """Copy the file to a running edge, and wait until the edge has read it."""
    name = edge.folder.name
    before = len(log.events(event="wire_secrets_changed", edge=name))
    shutil.copy(file, edge.folder)
    wait_for(lambda: len(log.events(event="wire_secrets_changed", edge=name)) > before, f"{name} to read {file.name}")


def teach_item(edge: Edge, item: int, seed: int) -> None:
    """Teach a whole aggregation period in which a new item occurs."""
    before, count = read_learned_mark(edge.folder / "data").newest, BATCH * EVERY
    some = [(user, old if n % 3 else item, x, y) for n, (user, old, x, y) in enumerate(events(count, seed))]
    assert tell(edge, send(edge, some))["accepted"] == count
    wait_for(
        lambda: read_learned_mark(edge.folder / "data").newest >= before + count - BATCH,
        f"{edge.folder.name} to have learned",
    )


def knows(edge: Edge, other: str, item: int) -> bool:
    """Whether an edge holds another's row of an item."""
    learner = restored(edge)
    row, held = learner.tables[ITEMS].numbering.find(key_of(item, FIRST)), learner.held.get(other)
    return row is not None and held is not None and row < len(held.has[ITEMS]) and bool(held.has[ITEMS][row])


def learn_of_each_other(fleet: Fleet, item: int) -> None:
    """Teach both an item that is new to both, until each holds the other's row of it."""
    seeds = itertools.count(100 * item)

    def is_exchanged() -> bool:
        for edge in fleet:
            teach_item(edge, item, next(seeds))
        return knows(fleet[0], "boston", item) and knows(fleet[1], "berlin", item)

    wait_for(is_exchanged, f"item {item} to be exchanged")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_secret_is_changed_edge_by_edge_and_nothing_is_lost(fleet: Fleet, tmp_path: Path, edge_log: EdgeLog) -> None:
    berlin, boston = fleet
    for number, edge in enumerate((berlin, boston, berlin, boston)):
        teach(edge, 2, seed=number)
    learn_of_each_other(fleet, 101)
    late = send(berlin, events(BATCH * EVERY, seed=50))
    half = send(berlin, events(BATCH // 2, seed=51))
    assert tell(berlin, half)["accepted"] == BATCH // 2, "feedback that waits for the rest of its batch"
    learner = restored(berlin)
    keys, records, held = learner.tables[ITEMS].numbering.keys_by_row(), learner.records, learner.held["boston"].number

    file = change_secret(tmp_path, "--rotate")
    give(berlin, file, edge_log)
    learn_of_each_other(fleet, 102)  # one edge has the new secret, the other has not
    give(boston, file, edge_log)
    learn_of_each_other(fleet, 103)
    file = change_secret(tmp_path, "--finish")
    give(boston, file, edge_log)
    learn_of_each_other(fleet, 104)  # one edge accepts the new secret alone, the other both
    give(berlin, file, edge_log)
    learn_of_each_other(fleet, 105)

    assert tell(berlin, late)["accepted"] == len(late), "labels of predictions made under the old secret"
    boston.kill()
    with edge_log.capture():
        boston.start()
    learn_of_each_other(fleet, 106)  # after a restart all keys are sent again, under the new secret
    learner = restored(berlin)
    assert learner.tables[ITEMS].numbering.keys_by_row()[: len(keys)] == keys, "stored keys are what they were"
    assert learner.records > records + len(late)
    assert learner.held["boston"].number > held
    assert all(knows(berlin, "boston", item) for item in range(101, 107))
    assert edge_log.events(event="peer_model_refused") == []
    assert "does not have" not in edge_log.path.read_text(), "no pull has failed for want of a common secret"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_edge_that_missed_a_rotation_says_so_and_is_back_with_the_file(
    fleet: Fleet, tmp_path: Path, edge_log: EdgeLog
) -> None:
    berlin, boston = fleet
    for number, edge in enumerate((berlin, boston, berlin, boston)):
        teach(edge, 2, seed=number)
    learn_of_each_other(fleet, 101)
    change_secret(tmp_path, "--rotate")
    file = change_secret(tmp_path, "--finish")
    give(berlin, file, edge_log)

    def refused(name: str) -> bool:
        reasons = edge_log.reasons(event="pull_failed", edge=name)
        return any("412" in reason and "secret that this edge does not have" in reason for reason in reasons)

    for number, edge in enumerate(fleet):
        teach_item(edge, 102, seed=60 + number)  # new keys need a common secret
    wait_for(lambda: refused("berlin") and refused("boston"), "both to be refused, with the reason")
    give(boston, file, edge_log)
    learn_of_each_other(fleet, 103)
    assert knows(berlin, "boston", 102)
    assert knows(boston, "berlin", 102), "what could not be pulled meanwhile has been since"
