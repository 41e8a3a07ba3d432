"""What a directory costs an edge in a fleet of any size, on paper: measured costs times simulated rates.

Full directory: every edge keeps an announcement of every other, and digests name all of them. Partial views: an edge
keeps a few announcements, as in ``partial_views.py``, and fetches those of its neighbours and of theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from alphaedge.edge.directory.exchange import LIVE_CONTACTS, MAX_ANNOUNCEMENTS_BYTES
from alphaedge.edge.directory.gossip import MAX_DIGEST_BYTES, ROUND_SECONDS
from alphaedge.edge.directory.membership import MAX_EDGES, Membership
from alphaedge.edge.peers.decisions import ANNOUNCE_EVERY_SECONDS, ANNOUNCE_SECONDS_PER_EDGE
from alphaedge.edge.trust.certificate_checks import MAX_REMEMBERED
from benchmarks.internet.costs import PEERS, Costs
from benchmarks.internet.partial_views import DRAWER, SWAPPED, VIEW

AGGREGATION_SECONDS: Final = 60.0
CHURN_PER_MINUTE: Final = 0.01
SHUFFLE_SECONDS: Final = 10.0
EXCHANGES: Final = 2 * LIVE_CONTACTS / ROUND_SECONDS  # a second: as many are asked for as answered, on average
MBIT: Final = 125_000.0  # bytes


@final
@dataclass(frozen=True)
class Load:
    """What an edge spends: bytes that it sends a second (it receives as many), cores, bytes of memory."""

    sent: float
    cores: float
    memory: float


def announcements_per_second(edges: int) -> float:
    """How often an edge announces: at every aggregation, and more rarely the larger the fleet is."""
    return 1 / AGGREGATION_SECONDS + 1 / max(ANNOUNCE_EVERY_SECONDS, ANNOUNCE_SECONDS_PER_EDGE * edges)


def full_directory(costs: Costs, edges: int, heard: float) -> Load:
    """A full directory. heard: heartbeats of an edge that another hears in a second."""
    rate = announcements_per_second(edges)
    digests = EXCHANGES * edges * costs.digest_entry
    is_forgotten = edges > MAX_REMEMBERED  # then certificates are checked again and again
    verify = costs.verify_certificate if is_forgotten else costs.verify_announcement
    check = costs.verify_heartbeat + (costs.verify_certificate - costs.verify_announcement if is_forgotten else 0.0)
    handling = EXCHANGES / 2 * (costs.write_digest + costs.answer_digest) + costs.choose_contacts / ROUND_SECONDS
    return Load(
        sent=digests + edges * rate * costs.announcement,
        cores=edges * (heard * check / ROUND_SECONDS + rate * verify + handling),
        memory=edges * costs.memory,
    )


def lean_directory(costs: Costs, edges: int) -> float:
    """Bytes sent a second with a full directory whose digests have no heartbeats and are exchanged every 10 s."""
    digests = EXCHANGES * ROUND_SECONDS / SHUFFLE_SECONDS * edges * costs.plain_entry
    return digests + edges * announcements_per_second(edges) * costs.announcement


def partial_views(costs: Costs) -> Load:
    """Partial views, for any number of edges: nothing in it grows with the fleet."""
    contact = costs.topology + costs.certificate
    shuffled = 2 * SWAPPED / SHUFFLE_SECONDS  # announcements a second: one message asked for, one answered
    fetched = (PEERS + 2) / AGGREGATION_SECONDS  # of neighbours in each round, and of the newcomer and of a puller
    return Load(
        sent=shuffled * contact + fetched * costs.announcement,
        cores=(shuffled + fetched) * costs.verify_certificate,
        memory=(VIEW + DRAWER + PEERS + PEERS**2) * costs.memory,
    )


def dead_entries(churn_per_minute: float = CHURN_PER_MINUTE) -> float:
    """Entries of edges that are gone, per edge that is alive, if every new edge has a new name."""
    return churn_per_minute * Membership.forget_after / 60


def join_seconds(costs: Costs, edges: int) -> float:
    """How long a new edge takes to hear of all others: messages have a limited size."""
    return edges * costs.announcement / (MAX_ANNOUNCEMENTS_BYTES * EXCHANGES)


def limits(costs: Costs, heard: float) -> dict[str, float]:
    """For how many edges a full directory is enough, by what gives out. Without churn if nothing else is said."""
    return {
        "1 Mbit/s sent": _largest(lambda n: full_directory(costs, n, heard).sent, MBIT),
        "a tenth of a core": _largest(lambda n: full_directory(costs, n, heard).cores, 0.1),
        "1 Mbit/s sent, digests every 10 s and without heartbeats": _largest(lambda n: lean_directory(costs, n), MBIT),
        "10 Mbit/s sent": _largest(lambda n: full_directory(costs, n, heard).sent, 10 * MBIT),
        "one core": _largest(lambda n: full_directory(costs, n, heard).cores, 1.0),
        "the directory is full": float(MAX_EDGES),
        "a digest is too large": MAX_DIGEST_BYTES / costs.digest_entry,
        "certificates are checked again": float(MAX_REMEMBERED),
        "1 GB of memory": 1e9 / costs.memory,
        "the directory is full, churn of 1% a minute for a week": MAX_EDGES / (1 + dead_entries()),
    }


def _largest(cost: Callable[[int], float], budget: float) -> float:
    """The largest number of edges whose cost, which grows with it, is within the budget."""
    low, high = 1, 10_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return float(low)
