"""News spread in the simulation as they do between real directories, in as many rounds."""

import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.internet.gossip import Gossip
from tests.edge.directory.network import Network, connected

EDGES = 60


def real_rounds(origin: int, network: Network) -> int:
    """Rounds until every directory has a new announcement of one edge."""
    name = f"e{origin}"
    version = network.edges[name].membership.own.announcement.version + 1
    network.announce(name, version)
    for rounds in range(1, 50):
        network.run_round()
        if all(one.membership.entries[name].announcement.version == version for one in network.edges.values()):
            return rounds
    raise AssertionError("the announcement does not arrive")


def simulated_rounds(edges: int, rng: np.random.Generator) -> list[int]:
    """The same, for some origins at once."""
    gossip = Gossip(edges, rng.choice(edges, 20, replace=False).astype(np.int32), rng)
    gossip.announce()
    found = [0] * 20
    while not all(found):
        gossip.run_round()
        found = [
            known or (gossip.round if share == 1 else 0) for known, share in zip(found, gossip.known(), strict=True)
        ]
    return found


def test_an_announcement_is_known_to_all_after_as_many_rounds_as_between_real_directories() -> None:
    network, _ = connected(EDGES)
    origins = random.Random(0).sample(range(EDGES), 12)
    real = statistics.mean(real_rounds(origin, network) for origin in origins)
    rng = np.random.default_rng(0)
    simulated = statistics.mean(rounds for _ in range(5) for rounds in simulated_rounds(EDGES, rng))
    assert simulated == pytest.approx(real, abs=0.75)


def test_real_directories_verify_as_many_heartbeats_as_the_simulation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _ = connected(EDGES)
    seen = [0]
    for exchange in network.edges.values():
        accept = exchange.membership.accept_heartbeat

        def counted(*arguments: Any, accept: Callable[..., None] = accept) -> None:
            seen[0] += 1
            accept(*arguments)

        monkeypatch.setattr(exchange.membership, "accept_heartbeat", counted)
    network.run_rounds(10)
    real = seen[0] / 10 / EDGES / (EDGES - 1)
    gossip = Gossip(EDGES, np.arange(EDGES, dtype=np.int32), np.random.default_rng(0))
    for number in range(20):
        gossip.received = gossip.received if number >= 10 else 0
        gossip.announce()
        gossip.run_round()
    assert gossip.received / 10 / EDGES / (EDGES - 1) == pytest.approx(real, rel=0.1)


def test_the_halves_of_a_partition_keep_their_news_until_it_heals() -> None:
    rng = np.random.default_rng(0)
    gossip = Gossip(200, np.arange(10, dtype=np.int32), rng)
    side = (np.arange(200) % 2).astype(np.int32)
    gossip.split(side)
    gossip.announce()
    for _ in range(20):
        gossip.run_round()
    assert gossip.known() == pytest.approx(np.full(10, 0.5)), "all of one side, none of the other"
    gossip.heal()
    for _ in range(4):
        gossip.run_round()
    assert gossip.known().min() == 1


def test_an_exchange_that_takes_a_whole_round_slows_news_down() -> None:
    def rounds(*, lockstep: bool) -> int:
        gossip = Gossip(500, np.arange(20, dtype=np.int32), np.random.default_rng(0), lockstep=lockstep)
        gossip.announce()
        while gossip.known().min() < 1:
            gossip.run_round()
        return gossip.round

    assert rounds(lockstep=False) < rounds(lockstep=True) <= 10


def test_an_edge_that_joins_knows_nothing_until_it_has_exchanged() -> None:
    rng = np.random.default_rng(0)
    gossip = Gossip(200, np.arange(5, dtype=np.int32), rng)
    gossip.announce()
    while gossip.known().min() < 1:
        gossip.run_round()
    gossip.replace(np.arange(100, 120))
    assert gossip.known() == pytest.approx(np.full(5, 0.9))
    gossip.replace(np.arange(5))
    assert gossip.known() == pytest.approx(np.full(5, 0.9)), "origins stay"
    gossip.run_round()
    assert gossip.known().min() == 1
