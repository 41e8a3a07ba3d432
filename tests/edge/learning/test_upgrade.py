"""A fleet is upgraded edge by edge: other schemas do not mix, say so, and meet again; and there is a way back."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from alphaedge.edge.store.journal import Journal
from alphaedge.edge.store.learned_mark import read_learned_mark
from alphaedge.edge.store.peer_status import PeerStatus
from alphaedge.edge.store.status import LearnerStatus, read_learner_status

from ..processes import BATCH, CONFIG, EVERY, Edge, events, fleet_of, send, teach, tell, wait_for


def status(edge: Edge) -> LearnerStatus:
    found = read_learner_status(edge.folder / "data" / "status.json")
    assert found is not None
    return found


def peer(edge: Edge, name: str) -> PeerStatus:
    return status(edge).peers.get(name, PeerStatus())


def restart_with(edge: Edge, model: dict[str, Any]) -> None:
    assert edge.stop() == 0
    raw = tomllib.loads(edge.path.read_text())
    edge.path.write_text(tomli_w.dumps(raw | {"model": model}))
    edge.start()


@pytest.mark.timeout(300)
def test_other_schemas_do_not_mix_and_meet_again_and_roll_back(tmp_path: Path) -> None:
    old, new = CONFIG["model"], CONFIG["model"] | {"hidden": [16]}
    with fleet_of(tmp_path, [("berlin", "DE"), ("boston", "US")]) as (berlin, boston):
        # Restarted edges must be found where they were.
        for edge in (berlin, boston):
            raw = tomllib.loads(edge.path.read_text())
            raw["peers"]["port"] = int(edge.address.rpartition(":")[2])
            edge.path.write_text(tomli_w.dumps(raw))
        for edge in (berlin, boston):
            teach(edge, 1, seed=0)
        wait_for(lambda: peer(berlin, "boston").publication > 0, "berlin to hear of boston's publication")
        for edge in (berlin, boston):
            teach(edge, 1, seed=1)
        wait_for(lambda: peer(berlin, "boston").pulls > 0, "berlin to have mixed")
        before = status(boston)
        # A prediction whose outcome comes after the upgrade.
        late = send(boston, events(BATCH, seed=9))

        restart_with(boston, new)
        assert status(boston).schema != before.schema
        wait_for(lambda: not peer(berlin, "boston").mixes, "berlin to hear of the other schema")
        pulls = peer(berlin, "boston").pulls
        assert tell(boston, late)["accepted"] == BATCH, "the fields are the same, so it can still be learned"
        teach(berlin, 2, seed=3)
        assert peer(berlin, "boston").pulls == pulls
        wait_for(lambda: peer(berlin, "boston").share == 0.0, "berlin to report a round without boston")

        restart_with(berlin, new)
        wait_for(lambda: peer(berlin, "boston").mixes and peer(boston, "berlin").mixes, "both to be of one kind again")
        wait_for(lambda: tell_more(boston) and peer(berlin, "boston").publication > 0, "boston to publish again")
        wait_for(lambda: tell_more(berlin) and peer(berlin, "boston").pulls > 0, "them to mix again")

        restart_with(boston, old)
        after = status(boston)
        assert after.schema == before.schema
        assert after.aggregations >= before.aggregations, "from the last checkpoint of the old model"


def tell_more(edge: Edge) -> bool:
    told = send(edge, events(EVERY * BATCH, seed=5))
    return bool(tell(edge, told)["accepted"] == len(told))


def test_outcomes_of_predictions_with_other_fields_are_kept_and_not_learned(tmp_path: Path) -> None:
    edge = Edge(tmp_path / "edge")
    edge.start()
    try:
        old = send(edge, events(BATCH, seed=1))
        fields = CONFIG["model"]["fields"]
        restart_with(edge, CONFIG["model"] | {"fields": [*fields[:2], {"name": "x", "kind": "number", "size": 3}]})
        assert tell(edge, old) == {"accepted": BATCH, "known": 0, "expired": 0, "unknown": 0}
        restart_with(edge, CONFIG["model"])
        told = send(edge, events((EVERY - 1) * BATCH, seed=2))
        assert tell(edge, told)["accepted"] == len(told)
        wait_for(lambda: read_learned_mark(edge.folder / "data").newest == EVERY * BATCH, "all of it to be learned")
        assert edge.stop() == 0
        assert Journal(edge.folder / "data" / "journal.db", readonly=True).last_feedback() == EVERY * BATCH
    finally:
        edge.end()
