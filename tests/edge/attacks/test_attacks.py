"""Real edges, one of them hostile: the honest ones learn on, and what it publishes does not count.

The attacks are those of the simulator (``alphaedge.attacks``) and two of the transport (``attacker.TRANSPORT``).
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from alphaedge.attacks.catalog import ATTACKS
from alphaedge.edge.config import load
from alphaedge.edge.learning.loop import LearningLoop
from alphaedge.edge.store.journal import Journal

from ..hostile import peer, status
from ..processes import Edge, send, tell, wait_for
from ..storm import Caller, kill_one
from .attacker import TRANSPORT
from .zoo import ATTACKER, BATCH, EVERY, HONEST, PERIOD, Zoo, tastes, zoo

# These publish models that are as good as honest ones, or nearly: there the score counts, not the share.
HARMLESS = ("free-rider", "poisoned-copy", "poisoned-statistics", "replayed-models", "drift")
HARMFUL = [name for name in ATTACKS if name not in HARMLESS]
FIRST_ROUNDS, ALL_ROUNDS = 10, 20
QUICK = ("random-model", "slow-peer")


def params(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in names]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("attack", params(HARMFUL))
def test_a_harmful_edge_has_no_share_after_ten_rounds_and_its_traces_fade(tmp_path: Path, attack: str) -> None:
    with zoo(tmp_path, attack) as fleet:
        fleet.teach(ALL_ROUNDS)
        for edge, shares in fleet.shares().items():
            assert len(shares) >= ALL_ROUNDS - 1, "the last round may not be in the log yet"
            assert shares[FIRST_ROUNDS - 1] < 0.01, f"{edge}: {shares}"
            assert max(shares[FIRST_ROUNDS:]) <= 0.05, f"{edge}: {shares}"
            assert peer(fleet.edges[edge], ATTACKER).pulls > 0, "its model has stood trial"
        fleet.remove_attacker()
        home_shares: list[list[float]] = []
        for _ in range(100 // EVERY):
            fleet.teach(1)
            home_shares.append([status(one).home_share for one in fleet.honest])
        for one, of_one in zip(fleet.honest, zip(*home_shares, strict=True), strict=True):
            # Not at the end alone: beside honest peers, too, a learned share moves between 0 and 0.6.
            assert min(of_one) < 0.5, f"the mixed model predicts again: {of_one}"
            assert status(one).batches_undone == 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("attack", params([*HARMLESS, *TRANSPORT]))
def test_edges_beside_one_that_is_of_no_use_learn_on(tmp_path: Path, attack: str) -> None:
    with zoo(tmp_path, attack) as fleet:
        fleet.teach(ALL_ROUNDS)
        shares = fleet.shares()
        assert all(len(rounds) >= ALL_ROUNDS - 1 for rounds in shares.values())
        for one in fleet.honest:
            assert status(one).score > 0.7
            assert status(one).batches_undone == 0
            assert any(peer.pulls > 0 for name, peer in status(one).peers.items() if name in HONEST)
        assert ACTED[attack](fleet), "it has attacked"
        if attack == "slow-peer":
            assert all(share == 0.0 for rounds in shares.values() for share in rounds)


def _is_pulled(fleet: Zoo) -> bool:
    return all(peer(edge, ATTACKER).pulls > 0 for edge in fleet.honest)


def _is_refused(fleet: Zoo) -> bool:
    return all(peer(edge, ATTACKER).refused > 0 for edge in fleet.honest)


def _is_too_slow(fleet: Zoo) -> bool:
    wait_for(lambda: fleet.log.events(event="pull_failed", peer=ATTACKER), "a pull from the slow peer to fail")
    return all(peer(edge, ATTACKER).pulls == 0 for edge in fleet.honest)


def _runs_into_limits(fleet: Zoo) -> bool:
    return all(status(edge).limit_hits.get(ATTACKER, {}).get("size", 0) > 0 for edge in fleet.honest)


ACTED: dict[str, Callable[[Zoo], bool]] = dict.fromkeys(HARMLESS, _is_pulled) | {
    "poisoned-statistics": _is_refused,
    "slow-peer": _is_too_slow,
    "oversized-requests": _runs_into_limits,
}


def storm(tmp_path: Path, kills: int) -> None:
    """Honest edges are killed again and again beside a hostile one; nothing is lost, and nothing trained twice."""
    rng = random.Random(kills)
    with zoo(tmp_path, "random-model") as fleet:
        fleet.teach(2)
        for edge in fleet.honest:
            wait_for(lambda e=edge: peer(e, ATTACKER).publication > 0, "the attacker to publish")  # type: ignore[misc]
        callers = [Caller(edge, random.Random(place), dict(_labels(edge))) for place, edge in enumerate(fleet.honest)]
        for _ in range(kills):
            for caller in callers:
                for _ in range(rng.randint(1, 8)):
                    caller.call()
            tell(fleet.edges[ATTACKER], send(fleet.edges[ATTACKER], tastes(BATCH, rng.getrandbits(30))))
            kill_one(rng.choice(fleet.honest), rng)
        for caller in callers:
            caller.finish(PERIOD)
        for caller in callers:
            assert caller.edge.stop() == 0
            caller.check_journal()
            loop = LearningLoop(load(caller.edge.path), caller.edge.folder)
            trained, learner = loop.learner.records, loop.learner
            waiting = BATCH * len(learner.waiting)
            assert trained + waiting == BATCH * learner.revealed == loop.progress.feedback, "each label once"
            assert learner.aggregations >= 2


def _labels(edge: Edge) -> dict[int, float]:
    """What the journal of an edge holds."""
    journal = Journal(edge.folder / "data" / "journal.db", readonly=True)
    found = dict(journal._db.execute("select prediction, label from feedback"))
    journal.close()
    return found


@pytest.mark.timeout(900)
def test_after_a_few_kills_beside_a_hostile_edge_nothing_is_lost_or_trained_twice(tmp_path: Path) -> None:
    storm(tmp_path, 3)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_after_a_hundred_kills_beside_a_hostile_edge_nothing_is_lost_or_trained_twice(tmp_path: Path) -> None:
    storm(tmp_path, 100)
