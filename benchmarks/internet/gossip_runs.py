"""Runs of gossip: how long news take to reach everybody, what edges hear of each other, and how a partition heals."""

from typing import Any, Final

import numpy as np

from alphaedge.edge.directory.gossip import ROUND_SECONDS
from alphaedge.edge.directory.membership import Membership
from benchmarks.internet.budget import CHURN_PER_MINUTE
from benchmarks.internet.gossip import Gossip

LEVELS: Final = (0.5, 0.99, 1.0)
STEADY_ROUNDS: Final = 4  # in which heartbeats are counted
SPLIT_ROUNDS: Final = 30
CHURN_ROUNDS: Final = 60
MAX_ROUNDS: Final = 100
DOWN_AFTER: Final = Membership.down_after  # seconds, and as many rounds


def spread(gossip: Gossip) -> dict[str, int]:
    """Rounds until a version that origins announce now is known to so many edges: of all origins the slowest."""
    found: dict[str, int] = {}
    began = gossip.round
    gossip.announce()
    while str(LEVELS[-1]) not in found and gossip.round - began < MAX_ROUNDS:
        gossip.run_round()
        known = float(gossip.known().min())
        found |= {str(level): gossip.round - began for level in LEVELS if known >= level and str(level) not in found}
    return found


def listen(gossip: Gossip, warm_up: int) -> dict[str, float]:
    """What edges hear of each other when each has a new heartbeat in every round.

    heard: heartbeats that an edge hears of another one in a round, each of which it verifies. down: the part of views
    in which an edge that is alive counts as down.
    """
    down = []
    for number in range(warm_up + STEADY_ROUNDS):
        gossip.received = gossip.received if number > warm_up else 0
        gossip.announce()
        gossip.run_round()
        down.append(gossip.silent(DOWN_AFTER))
    heard = gossip.received / STEADY_ROUNDS / gossip.edges / len(gossip.origins)
    return {"heard": round(heard, 3), "down": round(float(np.mean(down[warm_up:])), 6)}


def churn(gossip: Gossip, rng: np.random.Generator) -> float:
    """The part of edges that know the newest version of an origin while others join and leave, over some rounds.

    Each origin announces every ten rounds. What limits the size of messages is not simulated (``budget.join_seconds``).
    """
    found = []
    for number in range(CHURN_ROUNDS):
        if number % 10 == 0:
            gossip.announce()
        replaced = round(gossip.edges * CHURN_PER_MINUTE * ROUND_SECONDS / 60)
        gossip.replace(rng.choice(gossip.edges, max(1, replaced), replace=False))
        gossip.run_round()
        if number % 10 == 9:
            found.append(float(gossip.known().mean()))
    return round(float(np.mean(found)), 5)


def heal(edges: int, origins: int, rng: np.random.Generator, *, lockstep: bool) -> dict[str, int]:
    """Rounds after the end of a partition until what was announced meanwhile is known to so many edges."""
    gossip = _gossip(edges, origins, rng, lockstep=lockstep)
    gossip.split((rng.random(edges) < 0.5).astype(np.int32))
    gossip.announce()
    for _ in range(SPLIT_ROUNDS):
        gossip.run_round()
    gossip.heal()
    found: dict[str, int] = {}
    for number in range(1, MAX_ROUNDS):
        gossip.run_round()
        known = float(gossip.known().min())
        found |= {str(level): number for level in LEVELS if known >= level and str(level) not in found}
        if len(found) == len(LEVELS):
            break
    return found


def _gossip(edges: int, origins: int, rng: np.random.Generator, *, lockstep: bool, **options: int) -> Gossip:
    chosen = rng.choice(edges, min(origins, edges), replace=False).astype(np.int32)
    return Gossip(edges, chosen, rng, lockstep=lockstep, **options)


def measure(*, quick: bool) -> dict[str, Any]:
    """All runs of gossip, by the number of edges."""
    sizes = (100, 1_000) if quick else (100, 1_000, 10_000, 100_000)
    found: dict[str, Any] = {}
    for edges in sizes:
        rng = np.random.default_rng(edges)
        origins = 16 if edges > 10_000 else 32
        found[str(edges)] = {}
        for name, lockstep in (("at once", False), ("lockstep", True)):
            gossip = _gossip(edges, origins, rng, lockstep=lockstep)
            times = spread(gossip)
            found[str(edges)][name] = {"spread": times, **listen(gossip, warm_up=2 * times["1.0"])}
        found[str(edges)]["heal"] = heal(edges, origins, rng, lockstep=True)
        found[str(edges)]["known under churn"] = churn(_gossip(edges, origins, rng, lockstep=True), rng)
        slow = _gossip(edges, origins, rng, lockstep=True, contacts=1)
        found[str(edges)]["one contact"] = spread(slow)
    return found
