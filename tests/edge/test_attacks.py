"""Real edges, one of them hostile: the honest ones learn on, and what it publishes does not count.

The attacks are those of the simulator (``alphaedge.attacks``) and two of the transport (``attacker.TRANSPORT``).
"""

from pathlib import Path

import pytest

from alphaedge.attacks.catalog import ATTACKS

from .attacker import TRANSPORT
from .hostile import status
from .zoo import EVERY, HONEST, zoo

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
            assert min(shares[:FIRST_ROUNDS]) < 0.01, f"{edge}: {shares}"
            assert max(shares[FIRST_ROUNDS:]) <= 0.05, f"{edge}: {shares}"
        fleet.remove_attacker()
        fleet.teach(100 // EVERY)
        for one in fleet.honest:
            assert status(one).home_share < 0.5, "the mixed model predicts again"
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
            assert any(peer.pulls > 5 for name, peer in status(one).peers.items() if name in HONEST)
        if attack == "slow-peer":
            assert all(share == 0.0 for rounds in shares.values() for share in rounds)
